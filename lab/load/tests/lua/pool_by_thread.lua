-- Words that can be used only once: every thread takes its share of a file, counts the answers in
-- its own table, and ends when no word is left. Settings come from the environment and from a file
-- beside this one, and a line about the run is appended to a report.

local folder = os.getenv("POOL_FOLDER") or error("set POOL_FOLDER")
local share = dofile(folder .. "/share.lua")
package.path = folder .. "/?.lua;" .. package.path

local all = {}

setup = function(thread)
  thread:set("place", #all)
  thread:set("seen", {})
  table.insert(all, thread)
  thread:set("threads_so_far", #all)
end

init = function()
  local names = require("names")
  words = {}
  for line in io.lines(folder .. "/pool.txt") do
    words[#words + 1] = line
  end
  next_word, last_word = share(place, names.threads, #words)
  wrk.headers["Cookie"] = names.cookie .. "=" .. place
end

request = function()
  if next_word > last_word then
    return nil
  end
  local word = words[next_word]
  next_word = next_word + 1
  wrk.headers["X-Request-Id"] = place .. ":" .. word
  return wrk.format(nil, wrk.path .. "?id=" .. word), word
end

response = function(status, headers)
  local id = headers["X-Echo"]
  seen[id] = (seen[id] or 0) + status
end

done = function(summary, latency, requests)
  local sum, errors = 0, summary.errors
  for _, thread in ipairs(all) do
    for _, status in pairs(thread:get("seen")) do
      sum = sum + status
    end
    sum = sum + (thread:get("nothing") or 0)
  end
  local values, counted = {}, 0
  for i = 1, #latency do
    local value, count = latency(i)
    values[i] = value
    counted = counted + count
  end
  assert(latency[1] == values[1] and latency.min <= values[1])
  local report = assert(io.open(folder .. "/report.csv", "a"))
  report.write(report, string.format("%d,%d,%d,%d,%g\n", summary.requests, sum, counted,
    errors.status + errors.read + errors.timeout, latency:percentile(99.999999)))
  report:close()
  assert(requests.mean ~= nil and summary["bytes"] > 0)
end
