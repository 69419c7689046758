-- Sends several requests at once, made when the thread starts, to an address that accepts
-- connections.

local reachable = {}

function setup(thread)
  if #reachable == 0 then
    for _, address in ipairs(wrk.lookup(wrk.host, wrk.port or "http")) do
      if wrk.connect(address) then
        reachable[#reachable + 1] = address
      end
    end
  end
  thread.addr = reachable[math.random(#reachable)]
end

init = function(args)
  local all = {}
  for id = 1, 4 do
    all[id] = wrk.format("GET", "/v0/entity?id=" .. id)
  end
  together = table.concat(all)
end

request = function()
  return together
end
