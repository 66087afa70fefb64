// The code that the playground shows beside every tab, run as a user would.
import { execFile } from 'node:child_process'
import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import type { PlainRequest } from '../../api/dashboard/web/pages/playground/plain-request.ts'
import { nodeCode, pythonCode } from '../../api/dashboard/web/pages/playground/request-code.ts'
import { signUp } from '../support/dashboard/dashboard.ts'
import { mp3 } from '../support/media/media-files.ts'
import { test } from '../support/test.ts'
import { use, useFolder, useGateway } from '../support/use.ts'

const run = promisify(execFile)
const folder = useFolder(test)

const gateway = useGateway(test)
const env = use(test, async () => {
  const { organisationId } = await signUp(gateway)
  return { ...process.env, HEADGATE_API_KEY: await gateway.key(organisationId, 'test') }
})

/** Runs the shown Node.js code in the folder. */
async function runInNode(request: PlainRequest): Promise<string> {
  const file = join(folder, `${crypto.randomUUID()}.mjs`)
  await writeFile(file, nodeCode(gateway.url, request))
  return (await run(process.execPath, [file], { cwd: folder, env })).stdout
}

test('a JSON request prints its answer, whatever its text contains', async t => {
  const input = 'It’s "quoted",\n`ticked` \\ "model": true'
  const answer = JSON.parse(
    await runInNode({ path: '/v1/embeddings', body: { model: 'text-embedding-3-small', input } }),
  )
  t.is(answer.object, 'list')
})

test('a binary answer becomes a file, and a file is sent as a form', async t => {
  const body = { model: 'auto', input: 'Hello there' }
  await runInNode({ path: '/v1/audio/speech', body, output: 'speech.mp3' })
  t.true((await readFile(join(folder, 'speech.mp3'))).length > 100)
  await writeFile(join(folder, 'a "b",c.mp3'), mp3(40))
  const form = { file: 'a "b",c.mp3', fields: { model: 'auto' } }
  t.is(typeof JSON.parse(await runInNode({ path: '/v1/audio/transcriptions', form })).text, 'string')
})

test('Python gets its own literals', t => {
  const body = { model: 'auto', prompt: 'A "b"', hd: true, seed: null }
  const code = pythonCode(gateway.url, { path: '/v1/images', body })
  t.true(code.includes('"hd": True') && code.includes('"seed": None') && code.includes('"prompt": "A \\"b\\""'), code)
  t.regex(code, /^import os\nimport requests\n/)
})
