import { type Json, unknownField } from './slow-work.ts'

/**
 * What a model takes: `!` = required, `[]` = a list of files, `size` = a named one or `{width, height}`, a list = one of these,
 * a pair of numbers = a range.
 */
export type Rule =
  | 'text'
  | 'text!'
  | 'file'
  | 'file!'
  | 'file[]'
  | 'file[]!'
  | 'boolean'
  | 'seed'
  | 'size'
  | 'number!'
  | readonly string[]
  | readonly [number, number]
/** `output`: what it gives for an input, with its files at an address. */
export type Model = { input: Record<string, Rule>; output(files: string, body: Json): object }

export const sizes: Record<string, { width: number; height: number }> = {
  square_hd: { width: 1024, height: 1024 },
  square: { width: 512, height: 512 },
  portrait_4_3: { width: 768, height: 1024 },
  portrait_16_9: { width: 576, height: 1024 },
  landscape_4_3: { width: 1024, height: 768 },
  landscape_16_9: { width: 1024, height: 576 },
}

export const file = (url: string, content_type: string) => ({
  url,
  content_type,
  file_name: url.split('/').at(-1),
  file_size: 1,
})

/** What a model finds wrong with an input, as fal lists it. */
export function faultsOf(body: Json, rules: Model['input']): object[] {
  const unknown = unknownField(body, Object.keys(rules))
  const faults = unknown ? [fault(unknown, 'Extra inputs are not permitted', 'extra_forbidden')] : []
  for (const [name, rule] of Object.entries(rules)) {
    const value = body?.[name]
    if (value === undefined) {
      if (typeof rule === 'string' && rule.endsWith('!')) faults.push(fault(name, 'Field required', 'missing'))
    } else if (!fits(value, rule)) faults.push(fault(name, 'Input is not what is expected', 'invalid'))
  }
  return faults
}

const fault = (name: string, msg: string, type: string) => ({ loc: ['body', name], msg, type })

function fits(value: Json, rule: Rule): boolean {
  if (rule === 'boolean') return typeof value === 'boolean'
  if (rule === 'seed') return Number.isInteger(value)
  if (rule === 'number!') return typeof value === 'number'
  if (rule === 'size')
    return Object.hasOwn(sizes, value) || (Number.isInteger(value?.width) && Number.isInteger(value?.height))
  if (rule === 'file[]' || rule === 'file[]!')
    return Array.isArray(value) && value.length > 0 && value.every(one => fits(one, 'file'))
  if (rule === 'file' || rule === 'file!') return typeof value === 'string' && /^(https?|data):/.test(value)
  if (rule === 'text' || rule === 'text!') return typeof value === 'string' && value !== ''
  const [min, max] = rule
  if (typeof min === 'number') return typeof value === 'number' && value >= min && value <= (max as number)
  return (rule as readonly unknown[]).includes(value)
}
