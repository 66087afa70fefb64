import { spawn } from 'node:child_process'
import { mkdir, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { text as textOf } from 'node:stream/consumers'
import { dieWithParent, endOf } from '../../../dev/daemon.ts'
import type { Agent, Setup } from './agents.ts'

export type Run = { exitCode: number | null; stdout: string; output: string }

const maxRunMs = 120_000
/** An address where nobody listens: agents reach the gateway alone. */
const nowhere = 'http://127.0.0.1:9'
const local = '127.0.0.1,localhost'

/** One agent in a home and a work folder of its own, which go when it is closed. */
export class AgentSession {
  readonly work: string
  readonly #agent: Agent
  readonly #setup: Setup
  readonly #programs: string
  #prompts = 0

  private constructor(agent: Agent, setup: Setup, programs: string) {
    this.#agent = agent
    this.#setup = setup
    this.#programs = programs
    this.work = join(setup.home, 'work')
  }

  /** Sets an agent up; `programs` is the folder into which npm has installed them. */
  static async start(agent: Agent, settings: Omit<Setup, 'home'>, programs: string): Promise<AgentSession> {
    const home = await mkdtemp(join(tmpdir(), 'headgate-agent-'))
    const setup = { ...settings, home }
    const session = new AgentSession(agent, setup, programs)
    await mkdir(session.work)
    for (const [path, content] of Object.entries(agent.files?.(setup) ?? {})) {
      await mkdir(dirname(join(home, path)), { recursive: true })
      await writeFile(join(home, path), content)
    }
    if (agent.login) await session.#run(agent.login(setup))
    return session
  }

  /** Gives the agent a prompt; after the first it resumes its last session. */
  prompt(prompt: string): Promise<Run> {
    const isResumed = this.#prompts++ > 0
    return this.#run(this.#agent.prompt(this.#setup, prompt, isResumed))
  }

  async close(): Promise<void> {
    await endProcessesOf(this.#setup.home)
    await rm(this.#setup.home, { recursive: true, force: true, maxRetries: 5, retryDelay: 100 })
  }

  async #run(args: string[]): Promise<Run> {
    const child = spawn(join(this.#programs, this.#agent.program), args, {
      cwd: this.work,
      // A group of its own: what the agent has started ends with it.
      detached: true,
      env: { ...this.#environment(), ...this.#agent.env(this.#setup) },
      stdio: ['ignore', 'pipe', 'pipe'],
    })
    dieWithParent(child, 'SIGKILL')
    const endGroup = () => {
      try {
        process.kill(-child.pid!, 'SIGKILL')
      } catch {
        // It has ended.
      }
    }
    const timer = setTimeout(endGroup, maxRunMs)
    void endOf(child).then(endGroup)
    const [stdout, stderr] = await Promise.all([textOf(child.stdout!), textOf(child.stderr!), endOf(child)])
    clearTimeout(timer)
    return { exitCode: child.exitCode, stdout, output: `${stdout}\n${stderr}` }
  }

  #environment(): Record<string, string> {
    const { home } = this.#setup
    const proxies = ['http_proxy', 'https_proxy', 'HTTP_PROXY', 'HTTPS_PROXY'].map(name => [name, nowhere])
    return {
      ...Object.fromEntries(proxies),
      NO_PROXY: local,
      no_proxy: local,
      PATH: `${dirname(process.execPath)}:${process.env.PATH}`,
      HOME: home,
      TMPDIR: home,
      XDG_CONFIG_HOME: join(home, '.config'),
      XDG_DATA_HOME: join(home, '.local/share'),
      XDG_CACHE_HOME: join(home, '.cache'),
      XDG_STATE_HOME: join(home, '.local/state'),
      TERM: 'dumb',
      LANG: 'C.UTF-8',
      DO_NOT_TRACK: '1',
      CI: '1',
    }
  }
}

/** Ends what an agent has started outside its group, such as a daemon: on Linux, its command line names the folder. */
async function endProcessesOf(home: string): Promise<void> {
  const entries = await readdir('/proc').catch(() => [])
  for (const pid of entries.filter(entry => /^\d+$/.test(entry))) {
    const command = await readFile(`/proc/${pid}/cmdline`, 'utf8').catch(() => '')
    if (command.includes(home)) process.kill(Number(pid), 'SIGKILL')
  }
}
