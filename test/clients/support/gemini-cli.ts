import { spawn } from 'node:child_process'
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { text as textOf } from 'node:stream/consumers'
import { dieWithParent, endOf } from '../../../dev/daemon.ts'

const program = join(import.meta.dirname, '../agents/node_modules/@google/gemini-cli/bundle/gemini.js')
const maxRunMs = 45_000

/** As docs/clients.md says, and without what it would send to Google. */
const settings = {
  security: { auth: { selectedType: 'gemini-api-key' } },
  general: { enableAutoUpdate: false, enableAutoUpdateNotification: false },
  privacy: { usageStatisticsEnabled: false },
  telemetry: { enabled: false },
}

export type GeminiCliRun = {
  exitCode: number | null
  /** What the model said last; null if nothing was printed as JSON. */
  response: string | null
  /** Everything printed, for failures. */
  output: string
}

/** Runs gemini-cli without a terminal in an empty folder, against a server at `url` (without `/v1beta`). */
export async function runGeminiCli(
  url: string,
  { key, model, prompt }: { key: string; model: string; prompt: string },
): Promise<GeminiCliRun> {
  const home = await mkdtemp(join(tmpdir(), 'headgate-gemini-'))
  try {
    await mkdir(join(home, '.gemini'))
    await writeFile(join(home, '.gemini/settings.json'), JSON.stringify(settings))
    const child = spawn(process.execPath, [program, '-m', model, '--yolo', '--output-format', 'json', '-p', prompt], {
      cwd: home,
      env: {
        PATH: process.env.PATH,
        HOME: home,
        TERM: 'dumb',
        GEMINI_API_KEY: key,
        GOOGLE_GEMINI_BASE_URL: url,
        GEMINI_CLI_TRUST_WORKSPACE: 'true',
      },
      stdio: ['ignore', 'pipe', 'pipe'],
      timeout: maxRunMs,
      killSignal: 'SIGKILL',
    })
    dieWithParent(child, 'SIGKILL')
    const [stdout, stderr] = await Promise.all([textOf(child.stdout!), textOf(child.stderr!), endOf(child)])
    const [printed] = /^\{.*^\}/ms.exec(stdout) ?? []
    return {
      exitCode: child.exitCode,
      response: printed ? JSON.parse(printed).response : null,
      output: `${stdout}\n${stderr}`,
    }
  } finally {
    await rm(home, { recursive: true, force: true })
  }
}
