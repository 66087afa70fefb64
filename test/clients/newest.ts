// Runs the same turns with the pinned and with the newest version of each client, and prints what the newest asks in
// another way, and what the gateway refuses: `node test/clients/newest.ts`, or with names of agents, or `sdks`.
import { execFile } from 'node:child_process'
import { cp, mkdir, mkdtemp, readdir, readFile, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { basename, join } from 'node:path'
import { promisify } from 'node:util'
import { type Agent, agents } from './agents/agents.ts'
import { converse, programsIn } from './agents/conversation.ts'
import { installClients, npm, withOurNode } from './support/install.ts'
import { RecordingProxy } from './support/recording-proxy.ts'
import { differencesOf, shapesOf } from './support/shapes.ts'
import { type Stack, startStack } from './support/stack.ts'

type Manifest = { dependencies: Record<string, string>; optionalDependencies?: Record<string, string> }

const folder = import.meta.dirname
const root = join(folder, '../..')
const execute = promisify(execFile)
const testWithinMs = 900_000
/** Tests of libraries; the others have programs, generated code or signatures. */
const libraryTests = /^(ai-sdk|anthropic|frameworks|google-genai|openai(?!-contract)|openrouter|responses).*\.test\.ts$/
/** Libraries that the tests themselves are written with. */
const tools = new Set(['typescript', 'zod'])

const stopping = new AbortController()
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.on(signal, () => stopping.abort())
const names = process.argv.slice(2).map(name => name.toLowerCase())
const isWanted = (name: string) => names.length === 0 || names.includes(name.toLowerCase())
const temporary = await mkdtemp(join(tmpdir(), 'headgate-newest-'))
let stack: Stack | undefined
try {
  await installClients(stopping.signal)
  stack = await startStack(stopping.signal)
  const wanted = agents.filter(({ name }) => isWanted(name))
  if (wanted.length > 0) await compareAgents(wanted, stack)
  if (isWanted('sdks')) await compareLibraries(stack)
} finally {
  await stack?.stop()
  await rm(temporary, { recursive: true, force: true })
}
process.exit()

async function compareAgents(wanted: Agent[], { env }: Stack): Promise<void> {
  const keys = env.AGENT_KEYS!.split(',')
  const origin = new URL(env.BASE_URL!).origin
  const pinned = join(folder, 'agents')
  for (const agent of wanted) {
    const newest = join(temporary, agent.name)
    try {
      await installNewest(agent, newest)
    } catch (error) {
      console.log(`\n${agent.name}: its newest version cannot be installed\n${(error as { stderr?: string }).stderr}`)
      continue
    }
    const [before, after] = await Promise.all([versionIn(pinned, agent.package), versionIn(newest, agent.package)])
    const run = async (installed: string) => {
      const target = { origin, key: keys.shift()!, model: agent.models[0]!, programs: programsIn(installed) }
      const { parts, exchanges } = await converse(agent, target, false)
      const failures = parts.flatMap(({ run: { exitCode }, hasEnded, missingEdits }, index) =>
        exitCode === 0 && hasEnded && missingEdits.length === 0 ? [] : [`prompt ${index + 1} did not end rightly`],
      )
      return new Set([...shapesOf(exchanges), ...failures])
    }
    print(`${agent.name} ${before} → ${after}, ${agent.models[0]}`, await run(pinned), await run(newest))
  }
}

async function installNewest(agent: Agent, place: string): Promise<void> {
  await mkdir(place)
  await cp(join(folder, 'agents/.npmrc'), join(place, '.npmrc'))
  await writeFile(
    join(place, 'package.json'),
    JSON.stringify({ private: true, dependencies: { [agent.package]: 'latest' } }),
  )
  await npm(['install', '--prefix', place], stopping.signal)
}

async function versionIn(installed: string, name: string): Promise<string> {
  const manifest = await readFile(join(installed, 'node_modules', name, 'package.json'), 'utf8')
  return JSON.parse(manifest).version
}

/** The tests of the libraries, with the pinned and the newest ones, through a proxy each. */
async function compareLibraries(stack: Stack): Promise<void> {
  const copy = await copyWithNewest()
  const files = (await readdir(folder)).filter(name => libraryTests.test(name))
  const run = async (tests: string) => {
    const proxy = await RecordingProxy.start(new URL(stack.env.BASE_URL!).origin)
    try {
      const env = { ...withOurNode(), ...stack.env, BASE_URL: `${proxy.url}/v1` }
      const ava = join(root, 'node_modules/ava/entrypoints/cli.mjs')
      const options = { cwd: tests, env, timeout: testWithinMs, maxBuffer: 1e8, signal: stopping.signal }
      const output = await execute(process.execPath, [ava, '--tap', ...files], options).catch(error => error)
      const failures = [...String(output.stdout).matchAll(/^not ok \d+ - (.*)$/gm)].map(
        ([, title]) => `failed: ${title}`,
      )
      return new Set([...shapesOf(proxy.exchanges), ...failures])
    } finally {
      await proxy.close()
    }
  }
  const changes = await changedVersions(copy)
  print(`Libraries: ${changes.join(', ') || 'no newer version'}`, await run(folder), await run(copy))
}

/** A copy of this folder whose libraries are the newest ones within the versions that the tests name. */
async function copyWithNewest(): Promise<string> {
  const project = join(temporary, 'project')
  const copy = join(project, 'test/clients')
  await mkdir(join(project, 'test'), { recursive: true })
  for (const name of ['api', 'dev', 'shared', 'workers', 'prisma', 'node_modules', 'package.json'])
    await symlink(join(root, name), join(project, name))
  for (const name of ['emulators', 'support']) await symlink(join(root, 'test', name), join(project, 'test', name))
  await cp(folder, copy, { recursive: true, filter: path => basename(path) !== 'node_modules' })
  const { optionalDependencies: _, ...manifest } = await manifestIn(folder)
  const newest = Object.entries(manifest.dependencies).map(([name, version]) => {
    return [name, version.startsWith('npm:') || tools.has(name) ? version : 'latest']
  })
  const dependencies = Object.fromEntries(newest)
  await writeFile(join(copy, 'package.json'), JSON.stringify({ ...manifest, dependencies }))
  await rm(join(copy, 'package-lock.json'))
  await npm(['install', '--prefix', copy], stopping.signal)
  return copy
}

async function manifestIn(place: string): Promise<Manifest> {
  return JSON.parse(await readFile(join(place, 'package.json'), 'utf8'))
}

async function changedVersions(copy: string): Promise<string[]> {
  const { dependencies } = await manifestIn(folder)
  const versions = Object.keys(dependencies).map(async name => {
    const [before, after] = await Promise.all([versionIn(folder, name), versionIn(copy, name)])
    return before === after ? [] : [`${name} ${before} → ${after}`]
  })
  return (await Promise.all(versions)).flat()
}

function print(title: string, pinned: Set<string>, newest: Set<string>): void {
  const differences = differencesOf(pinned, newest)
  console.log(`\n${title}\n${differences.map(line => `  ${line}`).join('\n') || '  nothing new'}`)
}
