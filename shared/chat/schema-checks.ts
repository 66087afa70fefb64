import { Worker } from 'node:worker_threads'
import { FairSlots, type SlotOwner } from '../io/fair-slots.ts'
import type { Checked } from './schema-check.ts'
import type { CheckTask } from './schema-check-thread.ts'

/** Texts of live keys, and of test keys, that wait for their check, at most; of more, one of the owner with the most is not checked. */
const maxWaiting = 64
/** How long a text waits for the thread, and for its check; it is not checked then. */
const maxWaitMs = 10_000
const threadMemory = { maxOldGenerationSizeMb: 128 }

type Answer = { id: number; checked: Checked | null }

/**
 * Checks texts against schemas on a separate thread: compiling a caller's schema may take seconds, and a web process has one
 * thread for all clients. It makes one check at a time, of owners in turn, so that many slow checks of one owner do not delay those
 * of others. The thread starts with the first check; when it exits, its current check fails.
 */
class SchemaChecks {
  #thread: Worker | null = null
  readonly #slots = new FairSlots({ slots: 1, testSlots: 1 })
  readonly #waiting = new Map<number, (checked: Checked | null) => void>()
  #lastId = 0

  /** See `checkText`; null also where the thread is too busy. */
  async check(owner: SlotOwner, text: string, schema: unknown, repairs: boolean): Promise<Checked | null> {
    const limits = { waitMs: maxWaitMs, maxWaiting }
    const run = await this.#slots.run(owner, limits, () => this.#ask(text, schema, repairs))
    return run?.result ?? null
  }

  #ask(text: string, schema: unknown, repairs: boolean): Promise<Checked | null> {
    // As a text: a raw number cannot be cloned.
    const task: CheckTask = { id: ++this.#lastId, text, schema: JSON.stringify(schema ?? null), repairs }
    return new Promise(resolve => {
      const timer = setTimeout(() => this.#settle(task.id, null), maxWaitMs)
      this.#waiting.set(task.id, checked => {
        clearTimeout(timer)
        resolve(checked)
      })
      this.#thread ??= this.#start()
      this.#thread.postMessage(task)
    })
  }

  #start(): Worker {
    const thread = new Worker(new URL('./schema-check-thread.ts', import.meta.url), { resourceLimits: threadMemory })
    thread.on('message', ({ id, checked }: Answer) => this.#settle(id, checked))
    // Without a listener, running out of memory would end the process.
    thread.on('error', () => {})
    thread.once('exit', () => {
      if (this.#thread === thread) this.#thread = null
      for (const id of [...this.#waiting.keys()]) this.#settle(id, null)
    })
    // A process ends without waiting for it. A listener for messages would undo that, if it came later.
    thread.unref()
    return thread
  }

  #settle(id: number, checked: Checked | null): void {
    this.#waiting.get(id)?.(checked)
    this.#waiting.delete(id)
  }
}

export const schemaChecks = new SchemaChecks()
