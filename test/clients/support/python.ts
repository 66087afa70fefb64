import { execFile } from 'node:child_process'
import { createHash } from 'node:crypto'
import { mkdir, readFile, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { dieWithParent } from '../../../dev/daemon.ts'

/** Python libraries whose pins fit together, in a virtual environment of their own: `python/requirements/<name>.txt`. */
export type PythonEnvironment = { python: string } | { missing: string }

const folder = join(import.meta.dirname, '../python')
const environments = join(folder, '.venv')
/** Installs a hundred packages in seconds, where pip takes more than a minute. */
const installer = 'uv==0.13.9'
const installWithinMs = 240_000
export const maxInstallMs = 2 * installWithinMs
const oldestMinor = 11
const maxOutputBytes = 10_000_000
const execute = promisify(execFile)

/** What each environment was made from, beside it once it is whole. */
const stampOf = (name: string) => join(environments, `${name}.made-from`)

/**
 * Makes the environment of `requirements/<name>.txt`, unless it is there already. Says what is missing on machines without
 * Python or without an index of packages; requirements that cannot be installed are an error.
 */
export async function preparePython(name: string): Promise<PythonEnvironment> {
  const requirements = join(folder, 'requirements', `${name}.txt`)
  const python = join(environments, name, 'bin/python')
  const version = await run('python3', ['-c', 'import sys; print(sys.version_info[:2])']).catch(() => null)
  if (!version || !isNewEnough(version)) return { missing: `Python 3.${oldestMinor} or later` }
  const madeFrom = createHash('sha256')
    .update(version)
    .update(await readFile(requirements))
    .digest('hex')
  if ((await readFile(stampOf(name), 'utf8').catch(() => '')) === madeFrom) return { python }
  const uv = await installUv()
  if (!uv) return { missing: 'an index of Python packages' }
  await rm(stampOf(name), { force: true })
  await run(uv, ['venv', '--quiet', '--clear', '--python', 'python3', join(environments, name)])
  await run(uv, ['pip', 'install', '--quiet', '--no-deps', '--python', python, '--requirement', requirements])
  await writeFile(stampOf(name), madeFrom)
  return { python }
}

function isNewEnough(version: string): boolean {
  const [major, minor] = version.match(/\d+/g)!.map(Number)
  return major === 3 && minor! >= oldestMinor
}

let installing: Promise<string | null> | undefined

/** Where the installer is; null if it is not to be had. */
function installUv(): Promise<string | null> {
  installing ??= (async () => {
    const home = join(environments, 'installer')
    const uv = join(home, 'bin/uv')
    await mkdir(environments, { recursive: true })
    try {
      await run('python3', ['-m', 'venv', home])
      await run(join(home, 'bin/python'), ['-m', 'pip', 'install', '--quiet', installer])
      return uv
    } catch {
      return null
    }
  })()
  return installing
}

async function run(program: string, args: string[]): Promise<string> {
  const { stdout } = await execute(program, args, { timeout: installWithinMs, maxBuffer: maxOutputBytes })
  return stdout
}

/** How a library is told to stay on this machine: no telemetry, no prices or updates fetched while it is imported. */
const quiet = {
  DO_NOT_TRACK: '1',
  OTEL_SDK_DISABLED: 'true',
  ANONYMIZED_TELEMETRY: 'false',
  OPENAI_AGENTS_DISABLE_TRACING: '1',
  LITELLM_LOCAL_MODEL_COST_MAP: 'True',
  MEM0_TELEMETRY: 'False',
  HAYSTACK_TELEMETRY_ENABLED: 'False',
  AGNO_TELEMETRY: 'false',
  CREWAI_DISABLE_TELEMETRY: 'true',
  CREWAI_TRACING_ENABLED: 'false',
}

export type PythonRun = { hasPassed: boolean; output: string }

/** Runs the tests of one file by pytest, in a home folder of its own; what it printed. */
export async function runPytest(python: string, file: string, maxRunMs: number): Promise<PythonRun> {
  const home = join(environments, 'home')
  await mkdir(home, { recursive: true })
  // No keys of the machine's own, and no variable that leads a library anywhere else.
  const foreign = /^(OPENAI|ANTHROPIC|GEMINI|GOOGLE|LITELLM|LANGCHAIN|LANGSMITH)_/
  const inherited = Object.entries(process.env).filter(([name]) => !foreign.test(name))
  const env = {
    ...Object.fromEntries(inherited),
    ...quiet,
    HOME: home,
    PYTHONPYCACHEPREFIX: join(environments, 'bytecode'),
    PYTHONDONTWRITEBYTECODE: '',
  }
  const args = ['-m', 'pytest', '--quiet', '-p', 'no:cacheprovider', '--durations=3', file]
  const running = execute(python, args, {
    cwd: folder,
    env,
    timeout: maxRunMs,
    killSignal: 'SIGKILL',
    maxBuffer: maxOutputBytes,
  })
  dieWithParent(running.child, 'SIGKILL')
  return running.then(
    ({ stdout }) => ({ hasPassed: true, output: stdout }),
    ({ stdout, stderr }) => ({ hasPassed: false, output: `${stdout}\n${stderr}` }),
  )
}
