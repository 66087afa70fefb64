import { mkdtempSync } from 'node:fs'
import { rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { ExecutionContext } from 'ava'
import type { Clock, MonotonicClock } from '../../shared/base/time.ts'
import { freshStores, type Gateway, type Stores, startGateway } from './gateway.ts'
import type { Test } from './test.ts'

type Env = Record<string, string>
type End<T> = (resource: T, t: ExecutionContext) => unknown

/** How resources are ended, by the first of these methods that they have. */
const endings = ['close', 'stop', 'drop', 'release', 'kill'] as const

/**
 * Starts something before the tests of a file and ends it after them: what was started last ends first. What it returns
 * stands for the resource, and is to be used in tests and hooks only, when the resource is there.
 */
export function use<T extends object>(test: Test, start: () => T | Promise<T>, end: End<T> = endWell): T {
  let started: T | undefined
  test.before(async () => {
    started = await start()
  })
  test.atEnd(async t => {
    if (started) await end(started, t)
    started = undefined
  })
  return standIn(() => {
    if (!started) throw new Error('used before its file was prepared, or although that failed')
    return started
  })
}

/** A folder of the file's own, which is there at once. */
export function useFolder(test: Test): string {
  const folder = mkdtempSync(join(tmpdir(), 'headgate-test-'))
  test.atEnd(() => rm(folder, { recursive: true, force: true }))
  return folder
}

/** A migrated database and a Redis database of the file's own. */
export function useStores(test: Test): Stores {
  return use(test, freshStores)
}

/**
 * A gateway of the file's own, over stores of its own unless it is given some. Its environment is a function when it
 * needs what other resources know only once they are started.
 */
export function useGateway(
  test: Test,
  env: Env | (() => Env | Promise<Env>) = {},
  options: { stores?: Stores; clock?: Clock; monotonic?: MonotonicClock } = {},
): Gateway {
  const stores = options.stores ?? useStores(test)
  return use(test, async () =>
    startGateway(stores, typeof env === 'function' ? await env() : env, options.clock, options.monotonic),
  )
}

async function endWell(resource: object): Promise<void> {
  const methods = resource as Record<string, () => unknown>
  const name = endings.find(ending => typeof methods[ending] === 'function')
  if (name) await methods[name]!()
}

/** An object whose properties and methods are always those of another, which need not be there yet. */
function standIn<T extends object>(other: () => T): T {
  return new Proxy({} as T, {
    get: (_, name) => {
      const target = other()
      const value = Reflect.get(target, name, target)
      return typeof value === 'function' ? value.bind(target) : value
    },
    set: (_, name, value) => Reflect.set(other(), name, value),
    has: (_, name) => Reflect.has(other(), name),
    getPrototypeOf: () => Reflect.getPrototypeOf(other()),
    ownKeys: () => Reflect.ownKeys(other()),
    getOwnPropertyDescriptor: (_, name) => {
      const property = Reflect.getOwnPropertyDescriptor(other(), name)
      return property && { ...property, configurable: true }
    },
  })
}
