-- wrk: POST the bodies in turn, then print one JSON line with what was measured.
-- Arguments: content type, then one file per body.

local requests, turn = {}, 0

function init(arguments)
  local headers = { ["Content-Type"] = arguments[1] }
  for position = 2, #arguments do
    local file = assert(io.open(arguments[position], "rb"))
    requests[#requests + 1] = wrk.format("POST", nil, headers, file:read("*a"))
    file:close()
  end
end

function request()
  turn = turn % #requests + 1
  return requests[turn]
end

function done(summary, latency)
  local errors = summary.errors
  io.write(string.format(
    '\n{"requests": %d, "seconds": %.6f, "failed": %d, "p50_ms": %.3f, "p95_ms": %.3f, ' ..
    '"p99_ms": %.3f}\n',
    summary.requests, summary.duration / 1e6,
    errors.connect + errors.read + errors.write + errors.timeout + errors.status,
    latency:percentile(50) / 1e3, latency:percentile(95) / 1e3, latency:percentile(99) / 1e3))
end
