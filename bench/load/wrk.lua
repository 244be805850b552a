-- Requests for wrk. Arguments after "--": mode threads ...
--   append  pathsFile bodyBytes   POST to the paths in turn
--   read    pathsFile             GET the paths in turn
--   create  prefix count          PUT prefix0 .. prefix<count-1> once each, then say so
--   spread  prefix count bodyBytes   POST to all of prefix0 .. in a scattered order
--
-- wrk does not tell a script which connection asks for a request. Each thread has as many paths as connections and
-- hands them out in turn, so each connection has one append in flight and each stream, but for rare overtaking, too.
-- Requests are rendered once in init: what is measured is the server and not string work in Lua.

local threads = 0

-- The ports of a cluster's nodes: thread 0 talks to the first one, and so on.
local addresses = {}
for port in (os.getenv("WRK_PORTS") or ""):gmatch("%d+") do
  addresses[#addresses + 1] = wrk.lookup("127.0.0.1", port)[1]
end

function setup(thread)
  thread:set("threadIndex", threads)
  if #addresses > 0 then thread.addr = addresses[threads % #addresses + 1] end
  threads = threads + 1
end

local function readLines(path)
  local lines = {}
  for line in io.lines(path) do lines[#lines + 1] = line end
  return lines
end

local token = os.getenv("WRK_TOKEN")
local authorization = token and "Authorization: Bearer " .. token .. "\r\n" or ""

local function post(path, body)
  return "POST " .. path .. " HTTP/1.1\r\nHost: 127.0.0.1\r\n" .. authorization ..
    "Content-Type: application/octet-stream\r\nContent-Length: " .. #body .. "\r\n\r\n" .. body
end

local function put(path)
  return "PUT " .. path .. " HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/octet-stream\r\n" ..
    "Content-Length: 0\r\n\r\n"
end

local function get(path)
  return "GET " .. path .. " HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
end

local function inTurn(render, pathsFile, threadCount)
  local requests = {}
  for index, path in ipairs(readLines(pathsFile)) do
    if (index - 1) % threadCount == threadIndex then requests[#requests + 1] = render(path) end
  end
  local count, position = #requests, 0
  return function()
    position = position % count + 1
    return requests[position]
  end
end

-- After the last name the same name is created again (idempotent) until wrk is stopped from outside: so every request
-- that was in flight when the marker was printed is answered too. The first name is handed out twice, because wrk calls
-- once just to look at the request and never sends that one.
local function creating(prefix, count, threadCount)
  local nextIndex, looked, said = threadIndex, false, false
  return function()
    local index = nextIndex
    if not looked then
      looked = true
      return put(prefix .. index)
    end
    if index >= count then
      if not said then
        said = true
        io.write("@@created\n")
        io.flush()
      end
      return put(prefix .. (count - 1))
    end
    nextIndex = nextIndex + threadCount
    return put(prefix .. index)
  end
end

-- Steps by a number without a common divisor with any decimal count: visits every stream once before any twice, and
-- neighbours in time are far apart on disk.
local function spreading(prefix, count, body)
  local index, step = threadIndex * 104729 % count, 7368787 % count
  return function()
    index = (index + step) % count
    return post(prefix .. index, body)
  end
end

function init(args)
  local mode, threadCount = args[1], tonumber(args[2])
  if mode == "append" then
    local body = string.rep("x", tonumber(args[4]))
    request = inTurn(function(path) return post(path, body) end, args[3], threadCount)
  elseif mode == "read" then
    request = inTurn(get, args[3], threadCount)
  elseif mode == "create" then
    request = creating(args[3], tonumber(args[4]), threadCount)
  elseif mode == "spread" then
    request = spreading(args[3], tonumber(args[4]), string.rep("x", tonumber(args[5])))
  else
    error("unknown mode " .. tostring(mode))
  end
  -- From here on wrk ignores an interrupt that comes too early; before its main() one would have ended it without a word.
  if threadIndex == 0 then
    io.write("@@begun\n")
    io.flush()
  end
end

-- wrk decides before init whether requests are dynamic: there has to be a function by then.
function request() return "" end

function done(summary, latency, requests)
  local e = summary.errors
  io.write(string.format(
    '@@result {"requests":%d,"durationUs":%d,"bytes":%d,"p50Us":%d,"p99Us":%d,"p999Us":%d,"maxUs":%d,' ..
    '"errors":{"connect":%d,"read":%d,"write":%d,"status":%d,"timeout":%d}}\n',
    summary.requests, summary.duration, summary.bytes,
    latency:percentile(50), latency:percentile(99), latency:percentile(99.9), latency.max,
    e.connect, e.read, e.write, e.status, e.timeout))
end
