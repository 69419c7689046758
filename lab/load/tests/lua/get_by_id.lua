-- Reads entries with random ids from a range. The arguments are the range and a token, as in
--   … -s get_by_id.lua URL -- 100 199 secret
-- At the end, it prints a table for a spreadsheet.

local count = 0

setup = function(thread)
  count = count + 1
  thread:set("tid", count)
end

init = function(args)
  least, most = tonumber(args[1]) or 1, tonumber(args[2]) or 1000
  token = args[3]
  math.randomseed(os.time() + wrk.thread:get("tid") * 7919)
  math.random(); math.random()
  wrk.thread:set("started", wrk.time_us and wrk.time_us() or os.time())
  print(string.format("thread %d goes to %s", tid, tostring(wrk.thread.addr)))
end

request = function()
  local headers = {}
  if token then
    headers["X-Api-Key"] = token
  end
  headers["X-Thread"] = wrk.thread:get("tid")
  return wrk.format("GET", "/v0/entity?id=" .. math.random(least, most), headers)
end

done = function(summary, latency, requests)
  local errors = summary.errors
  io.write("requests,bytes,seconds,failed,min,mean,stdev,max\n")
  io.write(("%d,%d,%.3f,%d,%d,%.1f,%.1f,%d\n"):format(summary["requests"], summary["bytes"],
    summary["duration"] / 1e6, errors.connect + errors.read + errors.write + errors.status
      + errors.timeout, latency.min, latency.mean, latency.stdev, latency.max))
  local last = 0
  for _, p in pairs({ 50, 90, 99, 99.999 }) do
    local n = latency:percentile(p)
    assert(n >= last, "percentiles rise")
    last = n
    io.write(string.format("%g%%,%d\n", p, n))
  end
  assert(requests.max >= requests.min)
end
