-- The global "wrk" of scripts. This code runs on LuaJIT in every thread. "format" runs once for
-- each request, so it makes no tables, and it writes nothing into the headers that it receives.

-- Objects that scripts see are proxies made here, in Lua. This chunk is called with a table of
-- plain functions of the program; each returns a result, or nothing and a message.

local native = ...
local tostring, pairs, ipairs, type, error = tostring, pairs, ipairs, type, error
local newproxy, getmetatable, setmetatable = newproxy, getmetatable, setmetatable
-- Unlike the operator "#", it takes numbers, as bodies may be.
local length_of = string.len

local wrk = {
  scheme = "http",
  host = "localhost",
  port = nil,
  method = "GET",
  path = "/",
  headers = {},
  body = nil,
  thread = nil,
}

-- Returns the bytes of a request. Arguments that are nil are taken from the table "wrk".
-- "Content-Length" always fits the body, and "Host" is always there.
function wrk.format(method, path, headers, body)
  method = method or wrk.method
  path = path or wrk.path
  headers = headers or wrk.headers
  body = body or wrk.body

  local lines = ""
  for name, value in pairs(headers) do
    if name ~= "Host" and name ~= "Content-Length" then
      lines = lines .. "\r\n" .. name .. ": " .. tostring(value)
    end
  end

  local host = headers["Host"] or wrk.headers["Host"]
  if host then
    if body then
      return method .. " " .. path .. " HTTP/1.1\r\nHost: " .. host .. lines
        .. "\r\nContent-Length: " .. length_of(body) .. "\r\n\r\n" .. body
    end
    return method .. " " .. path .. " HTTP/1.1\r\nHost: " .. host .. lines .. "\r\n\r\n"
  end
  if body then
    return method .. " " .. path .. " HTTP/1.1" .. lines
      .. "\r\nContent-Length: " .. length_of(body) .. "\r\n\r\n" .. body
  end
  return method .. " " .. path .. " HTTP/1.1" .. lines .. "\r\n\r\n"
end

wrk.time_us = native.time_us

-- Makes an object with the given metamethods.
local function object(metamethods)
  local proxy = newproxy(true)
  local metatable = getmetatable(proxy)
  for name, metamethod in pairs(metamethods) do
    metatable[name] = metamethod
  end
  return proxy
end

-- Returns the result, or raises an error at the line of the script that called the function.
local function checked(result, message)
  if message then
    error(message, 3)
  end
  return result
end

-- Addresses are opaque to scripts; this table has the text of each address that is still in use.
local address_texts = setmetatable({}, { __mode = "k" })

local function new_address(text)
  local address = object({ __tostring = function() return text end })
  address_texts[address] = text
  return address
end

local function address_text(address)
  local text = address ~= nil and address_texts[address]
  if not text then
    error("an address from wrk.lookup is expected, not a " .. type(address), 3)
  end
  return text
end

function wrk.lookup(host, service)
  local texts = checked(native.lookup(tostring(host), tostring(service)))
  local addresses = {}
  for index, text in ipairs(texts) do
    addresses[index] = new_address(text)
  end
  return addresses
end

function wrk.connect(address)
  return native.connect(address_text(address))
end

-- Makes the object of a thread from the functions that reach it.
local function new_thread(reach)
  local methods = {}
  function methods.get(_, name)
    return checked(reach.get(tostring(name)))
  end
  function methods.set(_, name, value)
    checked(reach.set(tostring(name), value))
  end
  function methods.stop()
    reach.stop()
  end
  return object({
    __index = function(_, name)
      if name == "addr" then
        return new_address(reach.address())
      end
      return methods[name]
    end,
    __newindex = function(_, name, value)
      if name ~= "addr" then
        error("cannot set '" .. tostring(name) .. "' on a thread", 2)
      end
      reach.set_address(address_text(value))
    end,
  })
end

-- Makes the object for latencies or rates. As in wrk, #statistics is the number of different
-- values, and statistics(i) returns the i-th of them and its count; statistics[i] is that value, as
-- in wrk2.
local function new_statistics(parts)
  local fields = { min = parts.min, max = parts.max, mean = parts.mean, stdev = parts.stdev }
  function fields.percentile(_, percentile)
    return parts.percentile(percentile)
  end
  return object({
    __index = function(_, key)
      return fields[key] or parts.values[key]
    end,
    __len = function()
      return #parts.values
    end,
    __call = function(_, index)
      return parts.values[index], parts.counts[index]
    end,
  })
end

-- Keeps the addresses of a host that accept a connection.
function wrk.resolve(host, service)
  local reachable = {}
  for _, address in ipairs(wrk.lookup(host, service)) do
    if wrk.connect(address) then
      reachable[#reachable + 1] = address
    end
  end
  wrk.addrs = reachable
end

function wrk.setup(thread)
  if type(setup) == "function" then
    setup(thread)
  end
end

-- Runs once in every thread. A script may call it from its own "init"; that changes nothing.
local initialized = false
function wrk.init(args)
  if initialized then
    return
  end
  initialized = true

  if not wrk.headers["Host"] then
    local host = wrk.host
    if host:find(":", 1, true) then
      host = "[" .. host .. "]"
    end
    if wrk.port then
      host = host .. ":" .. wrk.port
    end
    wrk.headers["Host"] = host
  end

  if type(init) == "function" then
    init(args)
  end

  local request = wrk.format()
  function wrk.request()
    return request
  end
end

return wrk, {
  new_address = new_address,
  new_thread = new_thread,
  new_statistics = new_statistics,
  describe = function(problem) return tostring(problem) end,
}
