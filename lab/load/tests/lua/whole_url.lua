-- Sends the whole URL in the request line, made of the fields of "wrk", by turns with the default
-- request. The threads stop themselves.

local answers, most = 0, 20

function init(args)
  wrk.init(args)
  whole = wrk.scheme .. "://" .. wrk.host .. ":" .. wrk.port .. wrk.path
  assert(args[0]:sub(1, #wrk.scheme) == wrk.scheme, "the scheme is the URL's")
  most = tonumber(args[1]) or most
  made = wrk.format("GET", whole, { ["Host"] = wrk.headers["Host"], ["Accept"] = "*/*" })
end

local calls = 0

function request()
  calls = calls + 1
  if calls % 2 == 0 then
    return wrk.request()
  end
  return made
end

response = function(status, headers, body)
  answers = answers + 1
  if answers == most then
    wrk.thread:stop()
  end
end
