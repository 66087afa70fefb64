-- wrk script: posts one fixed chat request; its body is in the file named after `--`. Ends with one line of JSON.
function init(args)
  local file = assert(io.open(args[1], "rb"))
  local body = file:read("*a")
  file:close()
  wrk.headers["content-type"] = "application/json"
  request_text = wrk.format("POST", "/v1/chat/completions", wrk.headers, body)
end

function request()
  return request_text
end

function done(summary)
  local e = summary.errors
  io.write(string.format('\n{"requests":%d,"seconds":%.6f,"failed":%d}\n', summary.requests, summary.duration / 1e6,
    e.status + e.connect + e.read + e.write + e.timeout))
end
