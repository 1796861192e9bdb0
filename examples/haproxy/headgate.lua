-- The action lua.headgate: asks Headgate whether the request may pass. Sets txn.headgate to "passed", "refused" or
-- "undecided" (no answer: the request passes), and txn.headgate_retry_after, in seconds, if the call was refused.

local LISTENER = "abns@headgate"
local TIMEOUT_MS = 300 -- The listener's are shorter.

local function quoted(text)
    local escaped = text:gsub('[%c"\\]', function(char)
        return ("\\u%04x"):format(char:byte())
    end)
    return '"' .. escaped .. '"'
end

local function question(address)
    return '{"domain":"edge","descriptors":[{"entries":[{"key":"remote_address","value":' .. quoted(address) .. '}]}]}'
end

core.register_action("headgate", { "http-req" }, function(txn)
    local answer = core.httpclient():post({
        dst = LISTENER,
        url = "http://headgate/json",
        headers = { ["content-type"] = { "application/json" } },
        body = question(txn.f:src()),
        timeout = TIMEOUT_MS,
    })
    if answer.status == 200 then
        txn:set_var("txn.headgate", "passed")
    elseif answer.status == 429 then
        local retryAfter = answer.headers["retry-after"]
        txn:set_var("txn.headgate_retry_after", retryAfter and retryAfter[0] or "1")
        txn:set_var("txn.headgate", "refused")
    else
        txn:set_var("txn.headgate", "undecided")
    end
end)
