import { createContext, useContext } from 'react'
import type { DashboardKey } from '../../../wire/keys.ts'
import type { CatalogModel } from '../../../wire/models.ts'
import type { Client } from './client.ts'

/** The context of all playground tabs. */
export type Bench = { apiKey: DashboardKey; client: Client; models: CatalogModel[] }

export const BenchContext = createContext<Bench | null>(null)

export function useBench(): Bench {
  const bench = useContext(BenchContext)
  if (!bench) throw new Error('useBench outside of the playground')
  return bench
}
