-- Logs in, and then repeats rounds: writes an entry, reads it and deletes it, with a pause before
-- each. The thread ends after the last round.

local ROUNDS = 5
local steps = { "PUT", "GET", "DELETE" }
local at, rounds = 0, 0
local token

wrk.headers["Accept"] = "*/*"
wrk.thread_name = "rounds"

function setup(thread)
  thread:set("wait_ms", 1)
  rawset(_G, "the_thread", thread)
end

function init(args)
  wrk.init(args)
  waits = 0
end

function delay()
  waits = waits + 1
  return wait_ms
end

function request()
  if not token then
    return wrk.format("POST", "/login", { ["Content-Type"] = "application/json" },
      '{"name":"ada"}')
  end
  wrk.headers["Authorization"] = "Bearer " .. token
  local step = steps[at % #steps + 1]
  at = at + 1
  local body = step == "PUT" and string.rep("v", 100) or nil
  return wrk.format(step, wrk.path .. "?id=" .. rounds, nil, body)
end

function response(status, headers, body)
  if not token then
    token = body:match('"token":"(%w+)"') or headers["X-Token"]
    return
  end
  assert(status == 200 and headers["Content-Length"] == "2" and body == "ok")
  if at % #steps == 0 then
    rounds = rounds + 1
    wrk.thread:set("rounds_done", rounds)
    if rounds == ROUNDS then
      wrk.thread:stop()
    end
  end
end

function done(summary, latency, requests)
  print("rounds", the_thread:get("rounds_done"), "waits", the_thread:get("waits"))
end
