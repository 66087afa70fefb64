import { setTimeout as sleep } from 'node:timers/promises'
import { newId } from '../../shared/base/ids.ts'
import { operatorActor } from '../../shared/io/audit.ts'
import { type Session, type StripeEmulator, type StripeEvent, signature } from '../emulators/stripe.ts'
import { call } from '../support/gateway.ts'
import type { World } from './world.ts'

const everyMs = 3_000
const amountCents = 500
const tellAgainMs = 500
const toldWithinMs = 120_000
/** How often each event is delivered at the same time: providers of payments promise once or more. */
const copies = 3

/** Delivers an event; whether it was taken. */
export type Tell = (event: StripeEvent) => Promise<boolean>

/** Top-ups of an organisation of their own, whose events are delivered several times until they are taken. */
export class Payments {
  readonly organisationId = newId('org')
  readonly #world: World
  readonly #stripe: StripeEmulator
  readonly #random: () => number
  readonly #running: Promise<void>
  readonly #paid: string[] = []
  #untaken = 0
  #isStopped = false

  constructor(world: World, stripe: StripeEmulator, random: () => number) {
    this.#world = world
    this.#stripe = stripe
    this.#random = random
    this.#running = this.#pay()
  }

  get count(): number {
    return this.#paid.length
  }

  async stop(): Promise<void> {
    this.#isStopped = true
    await this.#running
  }

  /** Every payment is in the wallet once, and nothing else is. */
  async findBreaches(): Promise<string[]> {
    const { db } = this.#world.services
    const { organisationId } = this
    const entries = await db.ledgerEntry.findMany({ where: { organisationId } })
    const breaches = this.#paid.flatMap(id => {
      const own = entries.filter(({ cause }) => cause.startsWith(`stripe:${id}:`))
      const nano = own.reduce((sum, { amountNano }) => sum + Number(amountNano), 0)
      return own.length === 1 && nano === amountCents * 1e7 ? [] : [`top-up ${id} is in the ledger ${own.length} times`]
    })
    if (entries.length > this.#paid.length) breaches.push(`${entries.length} entries for ${this.#paid.length} top-ups`)
    if (this.#untaken > 0) breaches.push(`${this.#untaken} events of payments were not taken within ${toldWithinMs} ms`)
    return breaches
  }

  async #pay(): Promise<void> {
    const open: Promise<void>[] = []
    while (!this.#isStopped) {
      open.push(this.#topUp())
      await sleep(everyMs)
    }
    await Promise.all(open)
  }

  /** Delivers an event several times at once. Returns whether each was taken. */
  async tell(event: StripeEvent): Promise<boolean> {
    const taken = await Promise.all(Array.from({ length: copies }, () => this.#tell(event)))
    return taken.every(Boolean)
  }

  async #topUp(): Promise<void> {
    const session = await this.#checkout().catch(() => null)
    // A store was away: nobody has paid.
    if (!session) return
    if (!(await this.tell(this.#stripe.sessionEvent(session, 'completed', 'card')))) this.#untaken++
    this.#paid.push(session.metadata.top_up!)
  }

  async #checkout(): Promise<Session> {
    const { organisationId } = this
    const { db, topUps } = this.#world.services
    const organisation = { id: organisationId, name: 'A payer', wallet: { create: {} } }
    await db.organisation.upsert({ where: { id: organisationId }, create: organisation, update: {} })
    const checkout = { organisationId, actor: operatorActor, email: 'a@example.com', amountCents }
    const { id } = await topUps.createCheckout(checkout)
    return this.#stripe.sessionOf(id)
  }

  /** Delivers an event as Stripe does, again until it is taken. */
  async #tell(event: StripeEvent): Promise<boolean> {
    const { webUrls } = this.#world
    const body = JSON.stringify(event)
    for (const startedMs = Date.now(); Date.now() - startedMs < toldWithinMs; await sleep(tellAgainMs)) {
      const headers = { 'stripe-signature': signature(body, Date.now()) }
      const url = webUrls[Math.floor(this.#random() * webUrls.length)]!
      const response = await call(url, '/webhooks/stripe', { body, headers }).catch(() => null)
      if (response?.ok) return true
    }
    return false
  }
}
