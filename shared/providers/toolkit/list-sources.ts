import type { Source } from '../contract.ts'

/** The files of a list field, in order. */
export function sourcesIn(sources: ReadonlyMap<string, Source>, field: string): Source[] {
  const found: Source[] = []
  for (let i = 0; sources.has(`${field}.${i}`); i++) found.push(sources.get(`${field}.${i}`)!)
  return found
}
