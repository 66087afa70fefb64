import { createContext, useContext } from 'react'
import type { DashboardKey } from '../../../wire/keys.ts'
import type { CatalogModel } from '../../../wire/models.ts'
import type { Client } from './client.ts'

/** The context of all playground tabs. */
type PlaygroundState = { apiKey: DashboardKey; client: Client; models: CatalogModel[] }

export const PlaygroundContext = createContext<PlaygroundState | null>(null)

export function usePlayground(): PlaygroundState {
  const state = useContext(PlaygroundContext)
  if (!state) throw new Error('usePlayground outside of the playground')
  return state
}
