-- Writes entries one after the other. Every thread has its own range of ids and counts its answers.

local threads = {}

function setup(thread)
  thread:set("number", #threads)
  thread:set("step", 1000000)
  threads[#threads + 1] = thread
end

function init(args)
  first = number * step
  sent, stored, others = 0, 0, 0
  wrk.method = "PUT"
  wrk.headers["Content-Type"] = "application/octet-stream"
end

request = function()
  local id = first + sent
  sent = sent + 1
  wrk.body = "value " .. id
  return wrk.format(nil, "/v0/entity?id=" .. id)
end

response = function(status, headers, body)
  if status == 201 then
    stored = stored + 1
  else
    others = others + 1
  end
end

done = function(summary, latency, requests)
  local all = 0
  for index, thread in ipairs(threads) do
    local line = "thread %d: %d stored, %d others, from %d\n"
    all = all + thread:get("stored") + thread:get("others")
    io.write(line:format(index, thread:get("stored"), thread:get("others"), thread:get("first")))
  end
  io.write(string.format("all: %d of %d requests\n", all, summary.requests))
end
