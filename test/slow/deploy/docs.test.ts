import { execFile } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, globSync, readFileSync, statSync } from 'node:fs'
import { symlink, writeFile } from 'node:fs/promises'
import { createServer, type Server } from 'node:http'
import { stripTypeScriptTypes } from 'node:module'
import type { AddressInfo } from 'node:net'
import { dirname, join } from 'node:path'
import { text } from 'node:stream/consumers'
import { promisify } from 'node:util'
import { parseApplyFile } from '../../../api/operator/apply/apply-file.ts'
import { commands, environmentCommands } from '../../../api/operator/commands.ts'
import { webhookEvents } from '../../../api/webhook-events.ts'
import { agentSections, withSnippets } from '../../../docs/agent-snippets.ts'
import { ruleKindNames } from '../../../shared/alerts/rule-kinds.ts'
import { errorCodes, GatewayError } from '../../../shared/base/errors.ts'
import { variables } from '../../../shared/base/variables.ts'
import { operatorActor } from '../../../shared/io/audit.ts'
import { soundFile } from '../../../shared/providers/sandbox/media/sounds.ts'
import { videoFile } from '../../../shared/providers/sandbox/media/video-file.ts'
import { type CodeBlock, findAnchors, findLinks, type Page, readPages } from '../../support/api/doc-examples.ts'
import { png } from '../../support/media/png.ts'
import { runOperator, storesEnv } from '../../support/operator.ts'
import { inherited } from '../../support/stack.ts'
import { type ExecutionContext, test } from '../../support/test.ts'
import { use, useFolder, useGateway, useStores } from '../../support/use.ts'
import { startWorkers } from '../../support/workers.ts'

const run = promisify(execFile)
const root = join(import.meta.dirname, '../../..')
const pages = readPages()
const blocks = pages.flatMap(page => page.blocks)
const maxRunMs = 60_000
const encryptionKey = 'a key of at least thirty-two characters'
let provisioning: string
let polls: NodeJS.Timeout
/** The working directory of all examples: what one writes, a later one reads. */
const folder = useFolder(test)

const stores = useStores(test)
const gateway = useGateway(test, { ENCRYPTION_KEY: encryptionKey }, { stores })
use(test, () => startWorkers(gateway.services))
const account = use(test, () => gateway.account())
test.before(async () => {
  provisioning = (await gateway.services.keys.createProvisioning(account.organisationId, operatorActor)).secret
  polls = setInterval(() => void pollRunningJobs(), 200)
})
const operator = use(test, serveOperator)
test.before(async () => {
  await symlink(join(root, 'node_modules'), join(folder, 'node_modules'))
  await symlink(join(root, 'package.json'), join(folder, 'package.json'))
  const lines = blocks.find(({ language, code }) => language === 'jsonl' && code.includes('custom_id'))
  await writeFile(join(folder, 'requests.jsonl'), lines!.code)
  await writeFile(join(folder, 'face.png'), await png(512))
  await writeFile(join(folder, 'clip.mp4'), await videoFile({ seconds: 1 }))
  await writeFile(join(folder, 'speech.wav'), await soundFile('wav', 2))
  const user = { id: 'user_docs', name: 'Operator', email: 'you@example.com', emailVerified: true }
  await gateway.services.db.user.create({ data: user })
})
test.after.always(async () => {
  clearInterval(polls)
})

/** Runs operator commands in this process, since a process for each takes a second. Each argument ends with NUL. */
async function serveOperator(): Promise<Server> {
  const server = createServer(async (request, response) => {
    const args = (await text(request)).split('\0').slice(0, -1)
    const { exitCode, stdout, stderr } = await runOperator(
      { ...storesEnv(stores), ENCRYPTION_KEY: encryptionKey },
      ...args,
    )
    response.writeHead(exitCode === 0 ? 200 : 500).end(stdout + stderr)
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  return server
}

/** Polls media jobs ahead of schedule, so that examples with `Prefer: wait` take part of a second. */
async function pollRunningJobs(): Promise<void> {
  const jobs = await gateway.services.db.job.findMany({ where: { stage: 'running' }, select: { id: true } })
  await Promise.all(jobs.map(({ id }) => gateway.services.pollSchedule.wake(id, 0)))
}

type Check = (t: ExecutionContext, block: CodeBlock) => Promise<unknown>

/** How a block is checked, by its language. A block in any other language fails. */
const checks: Record<string, Check> = {
  sh: (t, block) => (runsHere(block) ? runShell(t, block) : parseShell(t, block)),
  bash: (t, block) => (runsHere(block) ? runShell(t, block) : parseShell(t, block)),
  js: (t, block) => (/from 'openai'|new WebSocket\(/.test(block.code) ? runScript(t, block) : parseScript(t, block)),
  ts: async (t, { code }) => t.notThrows(() => stripTypeScriptTypes(code)),
  python: parsePython,
  go: (t, block) => parseIfInstalled(t, block, 'go', ['gofmt', '-l']),
  ruby: (t, block) => parseIfInstalled(t, block, 'rb', ['ruby', '-c']),
  json: async (t, { code }) => t.notThrows(() => JSON.parse(code)),
  jsonl: async (t, { code }) =>
    t.notThrows(() =>
      code
        .trim()
        .split('\n')
        .map(line => JSON.parse(line)),
    ),
  yaml: (t, block) => (/^owner:/m.test(block.code) ? isApplyFile(t, block) : isAgentSnippet(t, block)),
  toml: isAgentSnippet,
  // Diagrams and pieces of event streams.
  text: async (t, { code }) => t.regex(code, /\S/),
}

/** A file of settings. One without secrets is applied by a later example. */
async function isApplyFile(t: ExecutionContext, { code }: CodeBlock): Promise<void> {
  const variable = (name: string) => (name.endsWith('SECRET') ? `svc_sk_live_${'x'.repeat(40)}` : `value-of-${name}`)
  t.truthy(parseApplyFile(code, { variable, folder }))
  if (!code.includes('${')) await writeFile(join(folder, 'gateway.yaml'), code)
}

/** There is no parser of the language here: the block has to be one of the snippets that are written for agents. */
async function isAgentSnippet(t: ExecutionContext, { code, language }: CodeBlock): Promise<void> {
  t.true(agentSections().includes(`\`\`\`${language}\n${code}\`\`\``))
}

for (const block of blocks) {
  const language = block.language || (block.where.startsWith('docs/ARCHITECTURE.md') ? 'text' : '')
  test.serial(`ok: ${block.where}, ${language}`, async t => {
    t.timeout(2 * maxRunMs)
    const check = checks[language]
    if (check) await check(t, block)
    else t.fail(`${block.where}: no check for the language "${language}"`)
  })
}

/** Whether a block needs nothing but the gateway and the operator's command line. The rest installs, deploys or starts something. */
function runsHere({ code }: CodeBlock): boolean {
  return /\bcurl\b[^\n]*http:\/\/localhost:3000\//.test(code) || code.includes('npm run -s operator -- ')
}

/** The code with the placeholders and addresses of the test's own gateway. */
function localise(code: string): string {
  return (
    code
      .replaceAll('http://localhost:3000', gateway.url)
      .replaceAll('ws://localhost:3000', gateway.url.replace('http', 'ws'))
      // The address of a public host: the tests may run where no name can be resolved.
      .replaceAll('https://example.com/webhooks', 'https://1.1.1.1/webhooks')
      .replaceAll('https://example.com/headgate', 'https://1.1.1.1/headgate')
      .replaceAll(/ (gateway\.yaml|keys\.json)/g, ` ${folder}/$1`)
      .replaceAll('svc_sk_test_…', account.test)
      .replaceAll('org_…', account.organisationId)
  )
}

function environment(): NodeJS.ProcessEnv {
  const examples = { KEY: account.test, PROVISIONING: provisioning, HEADGATE_URL: `${gateway.url}/v1` }
  return { ...inherited, ...storesEnv(stores), ENCRYPTION_KEY: encryptionKey, ...examples }
}

function operatorUrl(): string {
  return `http://127.0.0.1:${(operator.address() as AddressInfo).port}`
}

async function runShell(t: ExecutionContext, { code, options }: CodeBlock): Promise<void> {
  // Without an expected status, every response has to be a success.
  const flags = options.status ? `-w ' status=%{http_code}'` : '--fail-with-body'
  const script = `set -euo pipefail
curl() { command curl -sS ${flags} "$@"; }
npm() { [[ "$1 $2 $3 $4" == 'run -s operator --' ]] && printf '%s\\0' "\${@:5}" | command curl -sS --fail-with-body --data-binary @- ${operatorUrl()}; }
${localise(code)}`
  const { failure, stdout } = await execute('bash', ['-c', script])
  t.is(failure, null)
  if (options.status) t.true(stdout.endsWith(` status=${options.status}`), stdout)
}

async function parseShell(t: ExecutionContext, { code }: CodeBlock): Promise<void> {
  t.is((await execute('bash', ['-n', '-c', code])).failure, null)
}

async function runScript(t: ExecutionContext, block: CodeBlock): Promise<void> {
  const { failure, stdout } = await execute(process.execPath, [await fileOf(block, 'mjs', localise(block.code))])
  t.is(failure, null)
  t.regex(stdout, /\S/)
}

async function parseScript(t: ExecutionContext, block: CodeBlock): Promise<void> {
  const file = await fileOf(block, 'mjs', block.code)
  t.is((await execute(process.execPath, ['--check', file])).failure, null)
}

function parsePython(t: ExecutionContext, block: CodeBlock): Promise<void> {
  return parseIfInstalled(t, block, 'py', ['python3', '-m', 'py_compile'])
}

const installed = new Map<string, Promise<boolean>>()

function isInstalled(program: string): Promise<boolean> {
  const known = installed.get(program) ?? execute('which', [program]).then(({ failure }) => failure === null)
  installed.set(program, known)
  return known
}

/** Runs a program that parses a file, where it is installed. */
async function parseIfInstalled(
  t: ExecutionContext,
  block: CodeBlock,
  extension: string,
  [program, ...args]: [string, ...string[]],
): Promise<void> {
  const file = await fileOf(block, extension, block.code)
  if (await isInstalled(program)) t.is((await execute(program, [...args, file])).failure, null)
  else t.log(`not parsed: there is no ${program}`)
  t.true(existsSync(file))
}

async function fileOf({ where }: CodeBlock, extension: string, code: string): Promise<string> {
  const file = join(folder, `${where.replace(/\W+/g, '-')}.${extension}`)
  await writeFile(file, code)
  return file
}

/** Runs a program in the folder of the examples. `failure` is null after exit code 0, else everything it printed. */
async function execute(program: string, args: string[]): Promise<{ failure: string | null; stdout: string }> {
  const options = { cwd: folder, env: environment(), timeout: maxRunMs, maxBuffer: 64 * 1024 * 1024 }
  try {
    const { stdout } = await run(program, args, options)
    return { failure: null, stdout }
  } catch (error) {
    const { message, stdout = '', stderr = '' } = error as Error & { stdout?: string; stderr?: string }
    return { failure: `${message}\n${stdout.slice(-2_000)}\n${stderr.slice(-2_000)}`, stdout }
  }
}

test('ok: the examples that run against a gateway are found', t => {
  const count = (language: string, rule: (block: CodeBlock) => boolean) =>
    blocks.filter(block => block.language === language && rule(block)).length
  t.true(count('sh', runsHere) >= 30)
  t.true(count('js', ({ code }) => /from 'openai'/.test(code)) >= 3)
})

const decisions = globSync('docs/decisions/*.md', { cwd: root }).map(readPage)

function readPage(path: string): Page {
  return { path, text: readFileSync(join(root, path), 'utf8'), blocks: [] }
}

for (const page of [...pages, readPage('CONTRIBUTING.md'), ...decisions]) {
  test(`ok: ${page.path} links to files and headings that exist`, t => {
    t.deepEqual(brokenLinks(page), [])
  })
}

function brokenLinks(page: Page): string[] {
  return findLinks(page).flatMap(({ target, anchor }) => {
    const file = join(root, target)
    if (!existsSync(file)) return [target]
    if (anchor === null || statSync(file).isDirectory()) return []
    return findAnchors(readFileSync(file, 'utf8')).has(anchor) ? [] : [`${target}#${anchor}`]
  })
}

test('ok: docs/ARCHITECTURE.md and CONTRIBUTING.md name files and folders that exist', t => {
  const texts = ['docs/ARCHITECTURE.md', 'CONTRIBUTING.md'].map(path => readPage(path).text)
  const named = [...texts.join('\n').matchAll(/`((?:api|shared|workers|test|docs|prisma|dev|bench)\/[\w./-]+)`/g)]
  const paths = [...new Set(named.map(([, path]) => path!))]
  t.true(paths.length > 100)
  t.deepEqual(
    paths.filter(path => !existsSync(join(root, path))),
    [],
  )
})

test('ok: each section of docs/ARCHITECTURE.md names files of the folders that it names', t => {
  const missing = readPage('docs/ARCHITECTURE.md')
    .text.split(/^## /m)
    .flatMap(section => {
      const paths = [...section.matchAll(/`((?:[\w.-]+\/)+)(?:[\w.-]+)?`/g)].map(([, folder]) => join(root, folder!))
      const folders = [root, ...paths, ...paths.map(path => dirname(path)), join(root, 'api/dashboard')]
      const bare = [...section.matchAll(/`((?:[\w-]+\/)*[\w.-]+\.(?:ts|tsx|lua|json))`/g)].map(([, name]) => name!)
      return bare.filter(name => !folders.some(folder => existsSync(join(folder, name))))
    })
  t.deepEqual([...new Set(missing)], [])
})

test('ok: the index of decisions links every one of them, once', t => {
  const index = decisions.find(({ path }) => path === 'docs/decisions/index.md')!
  const others = decisions.map(({ path }) => path).filter(path => path !== index.path)
  const linked = findLinks(index).map(({ target }) => target)
  t.deepEqual(linked.filter(target => target.startsWith('docs/decisions/')).toSorted(), others.toSorted())
})

test('ok: docs/configuration.md and .env.example have every environment variable, and no other', t => {
  const page = pages.find(({ path }) => path === 'docs/configuration.md')!.text
  const rows = page.split('\n').filter(line => line.startsWith('| `'))
  const documented = rows.flatMap(row =>
    [...row.split('|')[1]!.matchAll(/`([A-Z][A-Z0-9_]+)`/g)].map(([, name]) => name!),
  )
  const known = Object.keys(variables.shape)
  // PostgreSQL's client and the migrations read these themselves.
  t.deepEqual(documented.toSorted(), [...known, 'PGSSLMODE', 'DIRECT_DATABASE_URL'].toSorted())
  const template = readFileSync(join(root, '.env.example'), 'utf8')
  t.deepEqual(
    known.filter(name => !template.includes(`# ${name}=`)),
    [],
  )
})

test('ok: .env.example can be read by a shell once its variables are set', async t => {
  const template = readFileSync(join(root, '.env.example'), 'utf8').replaceAll(/^# (?=[A-Z0-9_]+=)/gm, '')
  const file = join(folder, 'environment')
  await writeFile(file, template)
  const value = /^STORAGE_URL=(.*)$/m.exec(template)![1]
  t.deepEqual(await execute('sh', ['-euc', `. ${file}; printf %s "$STORAGE_URL"`]), { failure: null, stdout: value! })
})

test('ok: docs/errors.md has every error code with its status, and no other', t => {
  const page = pages.find(({ path }) => path === 'docs/errors.md')!.text
  const rows = [...page.matchAll(/^\| (\d{3}) \| `(\w+)` \|/gm)].map(([, status, code]) => `${code} ${status}`)
  t.deepEqual(rows.toSorted(), errorCodes.map(code => `${code} ${new GatewayError(code, '').status}`).toSorted())
})

test('ok: docs/ names every command of the operator', t => {
  const guides = pages.map(({ text }) => text).join('\n')
  const names = [...commands, ...environmentCommands].map(({ name }) => name)
  t.deepEqual(
    names.filter(name => !guides.includes(name)),
    [],
  )
})

test('ok: docs/webhooks.md has every event of a webhook and every kind of alert rule, and no other event', t => {
  const page = pages.find(({ path }) => path === 'docs/webhooks.md')!.text
  const section = page.slice(page.indexOf('## Events'), page.indexOf('## Endpoints'))
  const rows = section.split('\n').filter(line => line.startsWith('| `'))
  const documented = rows.flatMap(row => [...row.split('|')[1]!.matchAll(/`([\w.]+)`/g)].map(([, name]) => name!))
  t.deepEqual(documented.toSorted(), Object.keys(webhookEvents).toSorted())
  t.deepEqual(
    ruleKindNames.filter(kind => !page.includes(`\`${kind}\``)),
    [],
  )
})

test('ok: docs/agents.md has the snippets that the dashboard shows', t => {
  const { text } = pages.find(({ path }) => path === 'docs/agents.md')!
  t.true(text === withSnippets(text), 'run `node docs/agent-snippets.ts`')
})

test('ok: README.md has at most 150 lines', t => {
  t.true(pages[0]!.text.split('\n').length <= 151)
})
