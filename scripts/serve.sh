# A scratch folder and a server for the script that sources this file. At the script's end, the
# server is stopped, and the folder `work` is removed.
work=$(mktemp -d)
server=
trap '[ -z "$server" ] || kill "$server" 2>/dev/null || true; wait; rm -rf "$work"' EXIT

# serve PROGRAM... serve [FLAG...]: starts a server at a free port of this machine. Sets `server` to
# its process, and `url` to its URL. Its output is in `$work/log`.
serve() {
  # Create the log before it is read, as the background shell opens it only later.
  : >"$work/log"
  "$@" --data "$work/data" --listen 127.0.0.1:0 >"$work/log" 2>&1 &
  server=$!
  for _ in $(seq 600); do
    url=$(sed -n 's/^listening on //p' "$work/log" | head -1)
    [ -z "$url" ] || return 0
    kill -0 "$server" || break
    sleep 0.1
  done
  cat "$work/log" >&2
  exit 1
}
