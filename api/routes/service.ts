import { z } from 'zod'
import { GatewayError } from '../../shared/base/errors.ts'
import { endpoint } from '../endpoint.ts'
import { checkReadiness } from '../readiness.ts'

const shared = { method: 'get', tag: 'Service', access: 'public' } as const
const status = z.strictObject({ status: z.literal('ok') }).meta({ id: 'Status' })
const ready = status
  .extend({
    clock_skew_ms: z.int().optional().meta({
      description: 'How far the clock of the process is ahead, if by more than 30 s; negative if it is behind.',
    }),
  })
  .meta({ id: 'Readiness' })

export const health = endpoint({
  ...shared,
  path: '/healthz',
  operationId: 'getHealth',
  summary: 'Check whether the process is up',
  answers: { 200: { description: 'The process is up.', schema: status } },
  handle: () => ({ status: 'ok' }),
})

export const readiness = endpoint({
  ...shared,
  path: '/readyz',
  operationId: 'getReadiness',
  summary: 'Check whether requests can be served',
  answers: {
    200: {
      description:
        'Redis and PostgreSQL accept writes, the queues and the storage respond, and the database schema is current.',
      schema: ready,
    },
  },
  errors: ['service_unavailable'],
  async handle({ services }) {
    if (services.shutdown.isDraining)
      throw new GatewayError('service_unavailable', 'The process is stopping: send requests to another one.')
    await checkReadiness(services)
    const { isBounded, skewMs } = services.clockSkew
    return { status: 'ok', ...(!isBounded && { clock_skew_ms: skewMs }) }
  },
})
