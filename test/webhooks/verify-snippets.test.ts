import { execFile } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { verifySnippets } from '../../api/dashboard/web/pages/webhooks/verify-snippets.ts'
import { webhookSignature } from '../../shared/webhooks/secrets.ts'
import { test } from '../support/test.ts'

const run = promisify(execFile)
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

const calls = {
  'Python, no package': {
    extension: 'py',
    command: ['python3'],
    complete: (code: string) =>
      `${code}\nimport json, sys\nfor m in json.load(sys.stdin): print(is_signed(m["headers"], m["body"].encode(), "${secret}"))`,
  },
  Ruby: {
    extension: 'rb',
    command: ['ruby'],
    complete: (code: string) =>
      `${code}\nrequire 'json'\nJSON.parse($stdin.read).each { |m| puts signed?(m['headers'], m['body'], '${secret}') }`,
  },
  Go: {
    extension: 'go',
    command: ['go', 'run'],
    complete: (code: string) =>
      `${code.replace('package webhooks', 'package main').replace('import (', 'import (\n"encoding/json"\n"fmt"\n"os"')}
       func main() {
         var messages []struct { Headers map[string]string; Body string }
         json.NewDecoder(os.Stdin).Decode(&messages)
         for _, m := range messages {
           headers := http.Header{}
           for name, value := range m.Headers { headers.Set(name, value) }
           fmt.Println(IsSigned(headers, []byte(m.Body), "${secret}"))
         }
       }`,
  },
}

for (const [language, { extension, command, complete }] of Object.entries(calls))
  test(`the snippet for ${language} accepts what is signed, and nothing else, where the language is installed`, async t => {
    const code = codeOf(language)
    for (const part of ['webhook-id', 'webhook-timestamp', 'webhook-signature', 'whsec_', 'v1,', '300'])
      t.true(code.includes(part), part)
    t.regex(code, /sha256/i)
    const [program, ...args] = command
    if (!(await isInstalled(program!))) return t.log(`not run: there is no ${program}`)
    const folder = await mkdtemp(join(tmpdir(), 'headgate-snippet-'))
    t.teardown(() => rm(folder, { recursive: true, force: true }))
    const file = join(folder, `main.${extension}`)
    await writeFile(file, complete(code))
    const running = run(program!, [...args, file], { env: { ...process.env, GOCACHE: folder, GOTOOLCHAIN: 'local' } })
    running.child.stdin!.end(JSON.stringify(messages))
    const printed = (await running).stdout.trim().toLowerCase().split('\n')
    t.deepEqual(
      printed,
      messages.map(({ expected }) => String(expected)),
    )
  })

function isInstalled(program: string): Promise<boolean> {
  return run('which', [program]).then(
    () => true,
    () => false,
  )
}
