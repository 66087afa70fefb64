import { defineScript } from './lua-script.ts'
import { storeUnavailable } from './outage.ts'
import type { Redis } from './redis.ts'

const acquire = defineScript({
  name: 'acquire-slot',
  lua: [new URL('./slots.lua', import.meta.url)],
  keys: ['slotsKey'],
  args: { id: 'text', nowMs: 'number', expiresAtMs: 'number', maxSlots: 'number' },
})

/** Whether one of the `maxSlots` slots at a key was free, which `id` now holds until it expires. Throws 503. */
export async function acquireSlot(
  redis: Redis,
  slot: { slotsKey: string; id: string; nowMs: number; expiresAtMs: number; maxSlots: number },
): Promise<boolean> {
  const acquired = await acquire(redis, slot).catch(error => {
    throw storeUnavailable(error)
  })
  return acquired === 1
}
