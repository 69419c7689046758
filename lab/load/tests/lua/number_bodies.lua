-- Numbers as bodies and as parts of paths, which Lua converts to text: from the table "wrk", from
-- the argument, and with headers that have their own "Content-Length".

math.randomseed(17)
local base = "/v0/entity?id="
local turn = 0

local ways = {
  function(id)
    wrk.body = id
    return wrk.format("PUT", base .. id)
  end,
  function(id)
    wrk.body = nil
    return wrk.format("PUT", base .. id, {}, id)
  end,
  function(id)
    local own = {}
    own["Content-Length"] = #tostring(id) + 5
    own["Content-Type"] = "text/plain"
    own["X-Share"] = id / 2
    return wrk.format("PUT", base .. tostring(id), own, id)
  end,
  -- A list instead of a table with names: wrk sends the index as the name.
  function(id)
    return wrk.format("PUT", base .. id, { "Content-Type: text/plain" }, tostring(id))
  end,
  function(id)
    return wrk.format("PUT", base .. id, { ["Host"] = "" }, tostring(id))
  end,
  function(id)
    wrk.method, wrk.path, wrk.body = "PUT", base .. id, id
    local made = wrk.format(nil)
    wrk.method, wrk.path, wrk.body = "GET", "/", nil
    return made
  end,
}

function request()
  turn = turn + 1
  local id = math.random(1, 9) * 2 ^ math.random(0, 30)
  return ways[(turn - 1) % #ways + 1](id)
end
