/** Types shared by the page of own provider keys and its routes. */

import type { z } from 'zod'
import type { newProviderKey, presentProviderKey } from '../../../shared/providers/provider-keys.ts'

export type ShownProviderKey = ReturnType<typeof presentProviderKey>
export type NewProviderKeyFields = z.input<typeof newProviderKey>

/** GET …/provider-keys. `providers`: those that keys can be stored for; `fee_percent`: what calls with them cost here. */
export type ProviderKeysAnswer = { data: ShownProviderKey[]; providers: string[]; fee_percent: number }

/** POST …/provider-keys, PATCH …/provider-keys/{id} and POST …/provider-keys/{id}/test */
export type ProviderKeyAnswer = { data: ShownProviderKey }
