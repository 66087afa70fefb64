import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { output } from './lib/processes.ts'
import { chatPath } from './lib/request.ts'
import type { RequestSet } from './lib/requests.ts'
import { isGateway, type Rig, type Subject } from './rig.ts'
import type { Figures } from './rounds.ts'

/** A request, to chat where no path is given: what the gateway gets, and what the others get where that differs. */
export type Call = {
  path?: string
  body: string
  plainBody?: string
  /** So many keys in turn, from the one with this number on. */
  keys?: number
  firstKey?: number
  /** A key in place of the subject's. */
  key?: string
}

/** Runs a load driver against a subject and gives its figures. Throws an Error when the driver fails. */
export async function drive(
  rig: Rig,
  subject: Subject,
  driver: 'closed' | 'open' | 'streams',
  { path = chatPath, body, plainBody = body, keys = 0, firstKey = 0, key }: Call,
  options: Record<string, number>,
): Promise<Figures> {
  const requests = join(rig.folder, 'requests.json')
  const set: RequestSet = isGateway(subject.name)
    ? { path, headers: key ? [`authorization: Bearer ${key}`] : subject.headers, body, keys, firstKey }
    : { path, headers: subject.headers, body: plainBody, keys: 0 }
  writeFileSync(requests, JSON.stringify(set))
  const pids = subject.pids()
  const target = ['--port', String(subject.port), '--requests', requests, '--pids', pids.join(',')]
  const load = driver === 'closed' ? ['--load-pids', rig.loadPids().join(',')] : []
  const numeric = Object.entries(options).flatMap(([name, value]) => [`--${name}`, String(value)])
  return JSON.parse(await output([process.execPath, `bench/load/${driver}.ts`, ...target, ...load, ...numeric]))
}
