import { execFile } from 'node:child_process'
import { mkdir, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { createClient } from '@hey-api/openapi-ts'
import test from 'ava'
import { origin, testKey } from '../support/environment.ts'
import { heyApiConfig } from './hey-api.config.ts'

/** Clients generated from the document of a running gateway: they are made, compiled and used. */
const run = promisify(execFile)
const folder = import.meta.dirname
const generated = join(folder, 'generated')
const tool = (name: string) => join(folder, '../node_modules', name)
const generationMs = 180_000

test.before(async t => {
  t.timeout(generationMs)
  await rm(generated, { recursive: true, force: true })
  await mkdir(generated, { recursive: true })
  const document = await (await fetch(`${origin}/openapi.json`)).text()
  await writeFile(join(generated, 'openapi.json'), document)
  const types = join(generated, 'openapi-typescript.ts')
  await runNode(tool('openapi-typescript/bin/cli.js'), join(generated, 'openapi.json'), '-o', types)
  await createClient(heyApiConfig(generated))
})

test.serial('redocly finds no fault with the document, and nothing to warn of', async t => {
  t.timeout(generationMs)
  const args = ['lint', join(generated, 'openapi.json'), '--extends', 'recommended', '--format', 'json']
  const { stdout } = await runNode(tool('@redocly/cli/bin/cli.js'), ...args)
  const { totals, problems } = JSON.parse(stdout) as { totals: object; problems: unknown[] }
  t.deepEqual(problems, [])
  t.like(totals, { errors: 0, warnings: 0 })
})

test.serial('the generated clients compile as strictly as the product', async t => {
  t.timeout(generationMs)
  const compiled = await run(join(folder, '../../../node_modules/.bin/tsc'), ['-p', folder], { cwd: folder }).then(
    () => '',
    ({ stdout, message }) => stdout || message,
  )
  t.is(compiled, '')
})

test.serial('200 with the client of openapi-typescript and openapi-fetch', async t => {
  const { callWithOpenApiFetch } = await import(join(folder, 'openapi-fetch.ts'))
  await callWithOpenApiFetch(t, { origin, key: testKey })
})

test.serial('200 with the client of hey-api, its answers held to its zod schemas', async t => {
  const { callWithHeyApi } = await import(join(folder, 'hey-api.ts'))
  await callWithHeyApi(t, { origin, key: testKey })
})

function runNode(program: string, ...args: string[]) {
  const env = { ...process.env, REDOCLY_TELEMETRY: 'off', REDOCLY_SUPPRESS_UPDATE_NOTICE: 'true' }
  return run(process.execPath, [program, ...args], { cwd: generated, env, maxBuffer: 16 * 1024 * 1024 })
}
