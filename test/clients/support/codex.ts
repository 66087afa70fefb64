import { spawn } from 'node:child_process'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { text as textOf } from 'node:stream/consumers'
import { agentSnippets } from '../../../api/dashboard/web/pages/keys/agent-snippets.ts'
import { dieWithParent, endOf } from '../../../dev/daemon.ts'
import { loadCatalog } from '../../../shared/catalog/catalog.ts'
import { endpoints } from '../../../shared/catalog/schema.ts'

const maxRunMs = 45_000
/** Rust's name of the platform, in the package's folder of programs. */
const targets: Record<string, string> = {
  'darwin-arm64': 'aarch64-apple-darwin',
  'darwin-x64': 'x86_64-apple-darwin',
  'linux-arm64': 'aarch64-unknown-linux-musl',
  'linux-x64': 'x86_64-unknown-linux-musl',
}
const platform = `${process.platform}-${process.arch}`
const agents = join(import.meta.dirname, '../agents/package.json')
const manifest = createRequire(agents).resolve(`@openai/codex-${platform}/package.json`)
const program = join(dirname(manifest), 'vendor', targets[platform]!, 'bin/codex')

/** One line that `--json` prints. */
type CodexEvent = { type: string; item?: { type: string; text?: string; message?: string }; message?: string }
export type CodexRun = {
  exitCode: number | null
  events: CodexEvent[]
  /** Everything printed, for failures. */
  output: string
}
type CodexOptions = {
  key: string
  model: string
  prompt: string
  settings?: string[]
  /** Whether the key is the token of a ChatGPT account, and the server takes the place of OpenAI's. */
  isSignedIn?: boolean
}

/** Runs Codex without a terminal in an empty folder, set up as docs/agents.md says, against a server at `url`. */
export async function runCodex(
  url: string,
  { key, model, prompt, settings = [], isSignedIn = false }: CodexOptions,
): Promise<CodexRun> {
  const home = await mkdtemp(join(tmpdir(), 'headgate-codex-'))
  try {
    await writeFile(join(home, 'config.toml'), isSignedIn ? signedInConfig(url, model) : configFor(url, model))
    if (isSignedIn) await writeFile(join(home, 'auth.json'), signIn(key))
    const permissions = ['approval_policy="never"', 'sandbox_mode="danger-full-access"', ...settings]
    const overrides = permissions.flatMap(setting => ['-c', setting])
    const child = spawn(program, ['exec', '--json', '--skip-git-repo-check', ...overrides, prompt], {
      cwd: home,
      env: { PATH: process.env.PATH, HOME: home, CODEX_HOME: home, TERM: 'dumb', HEADGATE_API_KEY: key },
      stdio: ['ignore', 'pipe', 'pipe'],
      timeout: maxRunMs,
      killSignal: 'SIGKILL',
    })
    dieWithParent(child, 'SIGKILL')
    const [stdout, stderr] = await Promise.all([textOf(child.stdout!), textOf(child.stderr!), endOf(child)])
    const lines = stdout.split('\n').filter(line => line.startsWith('{'))
    return { exitCode: child.exitCode, events: lines.map(line => JSON.parse(line)), output: `${stdout}\n${stderr}` }
  } finally {
    await rm(home, { recursive: true, force: true })
  }
}

function configFor(origin: string, id: string): string {
  const row = loadCatalog().models.get(id)!
  const model = { ...row, endpoint: row.endpoint ?? endpoints[row.type] }
  return agentSnippets({ origin, key: '', model, models: [model] }).find(({ client }) => client === 'Codex')!.code
}

/**
 * Requests are compressed, and conversations compacted by the server, for a provider of this name only (openai/codex,
 * `responses_request_compression` and `supports_remote_compaction`). The provider that is built in would use a WebSocket.
 */
const signedInConfig = (origin: string, model: string) => `
model = "${model}"
model_provider = "openai-over-http"
chatgpt_base_url = "${origin}/backend-api"
check_for_update_on_startup = false

[model_providers.openai-over-http]
name = "OpenAI"
base_url = "${origin}/v1"
requires_openai_auth = true
wire_api = "responses"

[analytics]
enabled = false

[features]
apps = false
plugins = false
`

/** What \`codex login\` leaves behind for an account of ChatGPT. */
function signIn(token: string): string {
  const part = (content: object) => Buffer.from(JSON.stringify(content)).toString('base64url')
  const account = { chatgpt_plan_type: 'pro', chatgpt_account_id: 'account', chatgpt_user_id: 'user' }
  const claims = { email: 'someone@example.com', 'https://api.openai.com/auth': account }
  const tokens = {
    id_token: `${part({ alg: 'none' })}.${part(claims)}.${part({})}`,
    access_token: token,
    refresh_token: 'none',
    account_id: 'account',
  }
  return JSON.stringify({ auth_mode: 'chatgpt', OPENAI_API_KEY: null, tokens, last_refresh: new Date().toISOString() })
}
