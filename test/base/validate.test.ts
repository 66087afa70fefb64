import { z } from 'zod'
import type { GatewayError } from '../../shared/base/errors.ts'
import { validate } from '../../shared/base/validate.ts'
import { test } from '../support/test.ts'

const schema = z.object({
  list: z.array(z.string()).min(1).max(3).optional(),
  exact: z.array(z.int()).length(2).optional(),
  text: z.string().min(1).max(2).optional(),
  share: z.number().min(0).max(2).optional(),
  positive: z.number().positive().optional(),
  whole: z.int().optional(),
  flag: z.boolean().optional(),
  labels: z.record(z.string(), z.string()).optional(),
  choice: z.enum(['auto', 'low']).optional(),
  one: z.literal('chat').optional(),
  either: z.union([z.string(), z.number()]).optional(),
  mixed: z.union([z.enum(['none', 'auto']), z.array(z.string()).min(1)]).optional(),
  unlike: z.union([z.string(), z.string({ error: 'Send text.' })]).optional(),
  kind: z
    .discriminatedUnion('type', [z.object({ type: z.literal('a') }), z.object({ type: z.literal('b') })])
    .optional(),
  url: z.url().optional(),
  code: z.string().regex(/^x/).optional(),
  own: z
    .string()
    .refine(() => false, 'must be ours')
    .optional(),
  other: z
    .string()
    .refine(() => false, 'Send another one.')
    .optional(),
})

const faults: [value: unknown, message: string, param?: string][] = [
  [{ list: [] }, '`list` must have at least 1 item.'],
  [{ list: ['a', 'b', 'c', 'd'] }, '`list` must have at most 3 items.'],
  [{ list: 'a' }, '`list` must be an array.'],
  [{ list: ['a', 5] }, '`list.1` must be a string.', 'list.1'],
  [{ exact: [1] }, '`exact` must have exactly 2 items.'],
  [{ text: '' }, '`text` must have at least 1 character.'],
  [{ text: 'abc' }, '`text` must have at most 2 characters.'],
  [{ share: 9 }, '`share` must be at most 2.'],
  [{ share: -1 }, '`share` must be at least 0.'],
  [{ share: null }, '`share` must be a number.'],
  [{ positive: 0 }, '`positive` must be greater than 0.'],
  [{ whole: 1.5 }, '`whole` must be an integer.'],
  [{ flag: 'yes' }, '`flag` must be a boolean.'],
  [{ labels: [] }, '`labels` must be an object.'],
  [{ choice: 'high' }, '`choice` must be one of `auto`, `low`.'],
  [{ one: 'x' }, '`one` must be `chat`.'],
  [{ either: true }, '`either` must be a string or a number.'],
  [{ mixed: 5 }, '`mixed` must be one of `none`, `auto` or an array.'],
  [{ mixed: [] }, '`mixed` must have at least 1 item.'],
  [{ unlike: 5 }, '`unlike` is not valid.'],
  [{ kind: { type: 'c' } }, '`kind.type` must be one of `a`, `b`.', 'kind.type'],
  [{ url: 'nowhere' }, '`url` must be a URL.'],
  [{ code: 'y' }, '`code` must match `/^x/`.'],
  [{ own: 'x' }, '`own` must be ours.'],
  [{ other: 'x' }, '`other`: Send another one.'],
]

for (const [value, message, param = Object.keys(value as object)[0]] of faults)
  test(`400: ${message}`, t => {
    const { body } = t.throws<GatewayError>(() => validate(schema, value))
    t.like(body.error, { code: 'invalid_request', message, param })
  })

test('400: a body of another type is named as a whole', t => {
  const { body } = t.throws<GatewayError>(() => validate(schema, []))
  t.like(body.error, { message: 'The body must be a JSON object.', param: null })
})
