import { execFile } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'
import test from 'ava'
import { verifySnippets } from '../../api/dashboard/web/pages/webhooks/verify-snippets.ts'
import { webhookSignature } from '../../shared/store/webhook-signature.ts'

const secret = 'whsec_c2VjcmV0IG9mIGEgdGVzdA=='
const body = '{"type":"webhook.test","note":"é"}'

/** The headers of a message that two secrets signed so many seconds ago. */
function headersOf(agoS = 0) {
  const timestampS = Math.floor(Date.now() / 1_000) - agoS
  const signature = webhookSignature(['whsec_YW5vdGhlciBzZWNyZXQ=', secret], 'evt_1', timestampS, body)
  return { 'webhook-id': 'evt_1', 'webhook-timestamp': String(timestampS), 'webhook-signature': signature }
}

const messages = [
  { headers: headersOf(), body, expected: true },
  { headers: headersOf(), body: `${body} `, expected: false },
  { headers: headersOf(400), body, expected: false },
  { headers: { ...headersOf(), 'webhook-signature': 'v1,AAAA' }, body, expected: false },
]
const codeOf = (language: string) => verifySnippets.find(snippet => snippet.language === language)!.code

test('the snippets of the endpoint page are those of the documentation', t => {
  const page = readFileSync(join(import.meta.dirname, '../../docs/webhooks.md'), 'utf8')
  for (const { language, code } of verifySnippets) t.true(page.includes(`\n${code}\`\`\`\n`), language)
})

test('the snippet for Node.js without a package accepts what is signed, and nothing else', async t => {
  const { isSigned } = (await import(`data:text/javascript,${encodeURIComponent(codeOf('Node.js, no package'))}`)) as {
    isSigned: (headers: object, body: string, secret: string) => boolean
  }
  for (const { headers, body, expected } of messages) t.is(isSigned(headers, body, secret), expected)
})

test('the snippet for Python without a package accepts what is signed, and nothing else', async t => {
  const calls = `\nimport json, sys\nfor m in json.load(sys.stdin): print(is_signed(m["headers"], m["body"].encode(), ${JSON.stringify(secret)}))`
  const running = promisify(execFile)('python3', ['-c', codeOf('Python, no package') + calls])
  running.child.stdin!.end(JSON.stringify(messages))
  const printed = (await running).stdout.trim().split('\n')
  t.deepEqual(
    printed,
    messages.map(({ expected }) => (expected ? 'True' : 'False')),
  )
})
