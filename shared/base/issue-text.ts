import type { z } from 'zod'

type Issue = z.core.$ZodRawIssue

const maxListed = 20

/**
 * What is wrong with a value, as a predicate for the name of its field: "must have at least 1 item". Undefined leaves the
 * library's own text.
 */
export function issueText(issue: Issue): string | undefined {
  switch (issue.code) {
    case 'invalid_type':
      return typeText(String(issue.expected))
    case 'invalid_value':
      return choiceText(issue.values as unknown[])
    case 'invalid_union':
      return Array.isArray(issue.options) && issue.options.length > 0 ? choiceText(issue.options) : unionText(issue)
    case 'too_small':
      return boundText(issue, 'minimum')
    case 'too_big':
      return boundText(issue, 'maximum')
    case 'not_multiple_of':
      return `must be a multiple of ${issue.divisor}`
    case 'invalid_format':
      return formatText(issue)
  }
}

/** What is wrong with a name in a record; undefined if the issue is about something else. */
export function keyText(issue: z.core.$ZodIssue): string | undefined {
  return issue.code === 'invalid_key' ? issue.issues[0]?.message : undefined
}

const types: Record<string, string> = {
  int: 'an integer',
  array: 'an array',
  tuple: 'an array',
  object: 'an object',
  record: 'an object',
  null: 'null',
}

function typeText(expected: string): string {
  if (expected === 'never') return 'is not allowed here'
  return `must be ${types[expected] ?? `a ${expected}`}`
}

function choiceText(values: readonly unknown[]): string {
  const listed = values.slice(0, maxListed).map(value => `\`${String(value)}\``)
  if (values.length === 1) return `must be ${listed[0]}`
  return `must be one of ${listed.join(', ')}${values.length > maxListed ? ', …' : ''}`
}

/** What the alternatives of a union ask for: "must be a string or a number". */
function unionText({ errors }: Issue & { code: 'invalid_union' }): string {
  const asked = errors.map(([issue]) =>
    issue && issue.path.length === 0 ? /^must (.*)$/.exec(issue.message)?.[1] : null,
  )
  if (asked.length === 0 || !asked.every(text => text)) return 'is not valid'
  return `must ${[...new Set(asked)].join(' or ')}`.replaceAll(' or be ', ' or ')
}

const units: Record<string, string> = { string: 'character', array: 'item', set: 'item', map: 'entry', file: 'byte' }

function boundText(issue: Issue & { code: 'too_small' | 'too_big' }, side: 'minimum' | 'maximum'): string {
  const bound = Number(issue[side])
  const unit = units[String(issue.origin)]
  if (!unit) {
    if (issue.inclusive === false) return `must be ${side === 'minimum' ? 'greater' : 'less'} than ${bound}`
    return `must be at ${side === 'minimum' ? 'least' : 'most'} ${bound}`
  }
  const words = issue.exact ? 'exactly' : side === 'minimum' ? 'at least' : 'at most'
  return `must have ${words} ${bound} ${bound === 1 ? unit : unit.replace(/y$/, 'ie').concat('s')}`
}

const formats: Record<string, string> = {
  url: 'must be a URL',
  email: 'must be an email address',
  datetime: 'must be a date and time such as 2026-01-31T12:00:00Z',
  base64: 'must be Base64',
}

function formatText(issue: Issue & { code: 'invalid_format' }): string {
  if (issue.format === 'starts_with') return `must start with \`${issue.prefix}\``
  if (issue.format === 'regex') return `must match \`${issue.pattern}\``
  return formats[String(issue.format)] ?? `must be a valid ${issue.format}`
}
