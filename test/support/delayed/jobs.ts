import type { Clock } from '../../../shared/base/time.ts'
import type { Emulator, Reply } from '../../emulators/emulator.ts'
import { reply, startOpenAiEmulator } from '../../emulators/openai.ts'
import { freshStores, type Gateway, type Stores, startGateway } from '../gateway.ts'
import { type Shown, submit } from '../jobs/gateway.ts'
import { moneyEnvironment, nanoPerInputToken, nanoPerOutputToken } from '../wallet/money.ts'

export const path = '/v1/jobs'

/** A gateway with the usual margin in front of one emulated upstream, which serves `coin`. */
export type DelayedWorld = { gateway: Gateway; upstream: Emulator; stores: Stores; close(): Promise<void> }

export async function startDelayedWorld(env: Record<string, string> = {}, clock?: Clock): Promise<DelayedWorld> {
  const [stores, upstream] = await Promise.all([freshStores(), startOpenAiEmulator()])
  const gateway = await startGateway(stores, { ...(await delayedEnvironment(upstream)), ...env }, clock)
  return {
    gateway,
    upstream,
    stores,
    async close() {
      await gateway.close()
      await upstream.close()
      await stores.drop()
    },
  }
}

export async function delayedEnvironment(upstream: Emulator): Promise<Record<string, string>> {
  return { ...(await moneyEnvironment(upstream.url)), SERVICE_MARGIN_PERCENT: '5', ALLOW_PRIVATE_URLS: 'true' }
}

/** A delayed chat completion of `coin`; `more` adds to the chat's body. */
export function delayed(content = 'Hello later', more: object = {}, window: '1h' | '6h' = '1h') {
  const body = { model: 'coin', max_tokens: 50, messages: [{ role: 'user', content }], ...more }
  return { body, completion_window: window }
}

export function submitDelayed({ gateway }: DelayedWorld, key: string, request: object = delayed()): Promise<Shown> {
  return submit(gateway, path, key, request)
}

/** What an answer must cost, worked out apart from the product: tokens, 5 % margin, less the discount. Nano-dollars. */
export function expectedNano(
  usage: { prompt_tokens: number; completion_tokens: number },
  discountPercent = 25,
): number {
  const nano = usage.prompt_tokens * nanoPerInputToken + usage.completion_tokens * nanoPerOutputToken
  return Math.round((nano * 105 * (100 - discountPercent)) / 10_000)
}

/** A reply that is held back until `go` is called. */
export function gated(inner: Reply = reply): { reply: Reply; go(): void } {
  const gate = Promise.withResolvers<void>()
  return {
    reply: async (request, response) => {
      await gate.promise
      if (!response.destroyed) await inner(request, response)
    },
    go: () => gate.resolve(),
  }
}

/** The last thing said in each request that the upstream got, in their order. */
export function asked({ upstream }: DelayedWorld): string[] {
  return upstream.requests.map(({ body }) => body.messages.at(-1).content)
}
