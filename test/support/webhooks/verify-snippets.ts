import { execFile } from 'node:child_process'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { verifySnippets } from '../../../api/dashboard/web/pages/webhooks/verify-snippets.ts'
import { webhookSignature } from '../../../shared/webhooks/secrets.ts'

const run = promisify(execFile)
export const secret = 'whsec_c2VjcmV0IG9mIGEgdGVzdA=='
const body = '{"type":"webhook.test","note":"é"}'

/** The headers of a message that two secrets signed so many seconds ago. */
function headersOf(agoS = 0) {
  const timestampS = Math.floor(Date.now() / 1_000) - agoS
  const signature = webhookSignature(['whsec_YW5vdGhlciBzZWNyZXQ=', secret], 'evt_1', timestampS, body)
  return { 'webhook-id': 'evt_1', 'webhook-timestamp': String(timestampS), 'webhook-signature': signature }
}

/** Messages, each with whether it is signed. */
export const messages = [
  { headers: headersOf(), body, expected: true },
  { headers: headersOf(), body: `${body} `, expected: false },
  { headers: headersOf(400), body, expected: false },
  { headers: { ...headersOf(), 'webhook-signature': 'v1,AAAA' }, body, expected: false },
]

export function codeOf(language: string): string {
  return verifySnippets.find(snippet => snippet.language === language)!.code
}

const programs = {
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
export type SnippetLanguage = keyof typeof programs

/** What a snippet says about each message, or null where its language is not installed. */
export async function runSnippet(language: SnippetLanguage): Promise<boolean[] | null> {
  const { extension, command, complete } = programs[language]
  const [program, ...args] = command
  if (!(await isInstalled(program!))) return null
  const folder = await mkdtemp(join(tmpdir(), 'headgate-snippet-'))
  try {
    const file = join(folder, `main.${extension}`)
    await writeFile(file, complete(codeOf(language)))
    const running = run(program!, [...args, file], { env: { ...process.env, GOCACHE: folder, GOTOOLCHAIN: 'local' } })
    running.child.stdin!.end(JSON.stringify(messages))
    const printed = (await running).stdout.trim().toLowerCase().split('\n')
    return printed.map(line => line === 'true')
  } finally {
    await rm(folder, { recursive: true, force: true })
  }
}

function isInstalled(program: string): Promise<boolean> {
  return run('which', [program]).then(
    () => true,
    () => false,
  )
}
