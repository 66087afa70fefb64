import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { verifySnippets } from '../../api/dashboard/web/pages/webhooks/verify-snippets.ts'
import { test } from '../support/test.ts'
import { codeOf, messages, runSnippet, secret } from '../support/webhooks/verify-snippets.ts'

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

for (const language of ['Python, no package', 'Ruby', 'Go'] as const)
  test(`the snippet for ${language} has the names of the headers, the limit of age and the digest`, t => {
    const code = codeOf(language)
    for (const part of ['webhook-id', 'webhook-timestamp', 'webhook-signature', 'whsec_', 'v1,', '300'])
      t.true(code.includes(part), part)
    t.regex(code, /sha256/i)
  })

// That for Go runs in test/clients: to compile it takes half a minute of a core.
for (const language of ['Python, no package', 'Ruby'] as const)
  test(`the snippet for ${language} accepts what is signed, and nothing else, where the language is installed`, async t => {
    const found = await runSnippet(language)
    if (!found) t.log('not run: the language is not installed')
    const expected = found && messages.map(message => message.expected)
    t.deepEqual(found, expected)
  })
