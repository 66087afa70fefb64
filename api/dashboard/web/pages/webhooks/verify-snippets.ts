/** How to verify signatures, as docs/webhooks.md shows it. */
export const verifySnippets = [
  {
    language: 'Node.js',
    note: 'With the package `standardwebhooks` of npm.',
    code: `import { createServer } from 'node:http'
import { text } from 'node:stream/consumers'
import { Webhook } from 'standardwebhooks'

const webhook = new Webhook(process.env.WEBHOOK_SECRET)
createServer(async (request, response) => {
  try {
    const event = webhook.verify(await text(request), request.headers)
    console.log(request.headers['webhook-id'], event.type, event.data.id)
    response.writeHead(204).end()
  } catch {
    response.writeHead(400).end()
  }
}).listen(8080)
`,
  },
  {
    language: 'Python',
    note: 'With the package `standardwebhooks` of PyPI.',
    code: `import os
from flask import Flask, request
from standardwebhooks import Webhook, WebhookVerificationError

app, webhook = Flask(__name__), Webhook(os.environ["WEBHOOK_SECRET"])

@app.post("/")
def receive():
    try:
        event = webhook.verify(request.get_data(), dict(request.headers))
    except WebhookVerificationError:
        return "", 400
    print(request.headers["webhook-id"], event["type"], event["data"]["id"])
    return "", 204
`,
  },
  {
    language: 'Node.js, no package',
    note: 'Returns whether the message was signed with the secret within the last five minutes.',
    code: `import { createHmac, timingSafeEqual } from 'node:crypto'

export function isSigned(headers, body, secret) {
  const { 'webhook-id': id, 'webhook-timestamp': timestamp, 'webhook-signature': signatures } = headers
  const key = Buffer.from(secret.replace('whsec_', ''), 'base64')
  const expected = createHmac('sha256', key).update(\`\${id}.\${timestamp}.\${body}\`).digest()
  const isRecent = Math.abs(Date.now() / 1000 - Number(timestamp)) < 300
  return isRecent && signatures.split(' ').some(signature => {
    const given = Buffer.from(signature.slice('v1,'.length), 'base64')
    return given.length === expected.length && timingSafeEqual(given, expected)
  })
}
`,
  },
  {
    language: 'Python, no package',
    note: 'Returns whether the message was signed with the secret within the last five minutes.',
    code: `import base64, hashlib, hmac, time

def is_signed(headers: dict, body: bytes, secret: str) -> bool:
    key = base64.b64decode(secret.removeprefix("whsec_"))
    content = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.".encode() + body
    expected = "v1," + base64.b64encode(hmac.new(key, content, hashlib.sha256).digest()).decode()
    is_recent = abs(time.time() - int(headers["webhook-timestamp"])) < 300
    return is_recent and any(hmac.compare_digest(expected, given) for given in headers["webhook-signature"].split(" "))
`,
  },
  {
    language: 'Go',
    note: 'Returns whether the message was signed with the secret within the last five minutes.',
    code: `package webhooks

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"net/http"
	"strconv"
	"strings"
	"time"
)

func IsSigned(headers http.Header, body []byte, secret string) bool {
	id, timestamp := headers.Get("webhook-id"), headers.Get("webhook-timestamp")
	key, keyErr := base64.StdEncoding.DecodeString(strings.TrimPrefix(secret, "whsec_"))
	seconds, timeErr := strconv.ParseInt(timestamp, 10, 64)
	if keyErr != nil || timeErr != nil || time.Since(time.Unix(seconds, 0)).Abs() > 300*time.Second {
		return false
	}
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(id + "." + timestamp + "." + string(body)))
	expected := "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil))
	for _, given := range strings.Fields(headers.Get("webhook-signature")) {
		if hmac.Equal([]byte(given), []byte(expected)) {
			return true
		}
	}
	return false
}
`,
  },
  {
    language: 'Ruby',
    note: 'Returns whether the message was signed with the secret within the last five minutes.',
    code: `require 'openssl'

def signed?(headers, body, secret)
  id, timestamp, signatures = headers.values_at('webhook-id', 'webhook-timestamp', 'webhook-signature')
  key = secret.delete_prefix('whsec_').unpack1('m')
  expected = 'v1,' + [OpenSSL::HMAC.digest('SHA256', key, "#{id}.#{timestamp}.#{body}")].pack('m0')
  recent = (Time.now.to_i - timestamp.to_i).abs < 300
  recent && signatures.split.any? { |given| OpenSSL.secure_compare(given, expected) }
end
`,
  },
]
