import { z } from 'zod'
import { GatewayError } from '../../shared/base/errors.ts'
import { endpoint } from '../endpoint.ts'

const shared = { method: 'get', tag: 'Service', access: 'public' } as const
const status = z.strictObject({ status: z.literal('ok') }).meta({ id: 'Status' })

export const health = endpoint({
  ...shared,
  path: '/healthz',
  operationId: 'getHealth',
  summary: 'Check whether the process is up',
  answers: { 200: { description: 'It is.', schema: status } },
  handle: () => ({ status: 'ok' }),
})

const patienceMs = 2_000

export const readiness = endpoint({
  ...shared,
  path: '/readyz',
  operationId: 'getReadiness',
  summary: 'Check whether requests can be served',
  answers: { 200: { description: 'Redis, Postgres and the storage answer.', schema: status } },
  errors: ['service_unavailable'],
  async handle({ services }) {
    const checks = Promise.all([services.redis.ping(), services.db.$queryRaw`SELECT 1`, services.blobs.check()])
    const late = new Promise((_, reject) => {
      setTimeout(() => reject(new Error('no answer in time')), patienceMs).unref()
    })
    try {
      await Promise.race([checks, late])
      return { status: 'ok' }
    } catch (cause) {
      throw new GatewayError('service_unavailable', 'Redis, Postgres or the storage does not answer.', {
        headers: { 'retry-after': '1' },
        cause,
      })
    }
  },
})
