import { litellm } from './litellm.ts'
import { oneApi } from './one-api.ts'
import type { Peer } from './peer.ts'
import { portkey } from './portkey.ts'

/** By their names as subjects. One API takes tables from LiteLLM, which is installed before it. */
export const peers: Readonly<Record<string, Peer>> = { portkey, litellm, 'one-api': oneApi }
