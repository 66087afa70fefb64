import { writeFileSync } from 'node:fs'
import { join } from 'node:path'

const file = join(import.meta.dirname, '../../../api/openapi/examples.json')
const maxItems = 2
const maxText = 200

/** An answer as the documentation shows it: short, without the secrets and addresses of a test. */
export function asExample(body: unknown, gatewayUrl: string): unknown {
  return JSON.parse(JSON.stringify(body, shorten).replaceAll(gatewayUrl, 'https://gateway.example'))
}

function shorten(_name: string, value: unknown): unknown {
  if (Array.isArray(value)) return value.slice(0, maxItems)
  if (typeof value !== 'string') return value
  const text = value
    .replace(/^whsec_.+$/, 'whsec_…')
    .replace(/^(svc_\w+_(?:live|test)_|svc_\w+_)[0-9A-Za-z]{8,}$/, '$1…')
  return text.length <= maxText ? text : `${text.slice(0, maxText)}…`
}

/** Writes the examples of the document, sorted by operation. */
export function writeExamples(examples: Record<string, unknown>): void {
  const sorted = Object.fromEntries(Object.entries(examples).sort(([a], [b]) => a.localeCompare(b)))
  writeFileSync(file, `${JSON.stringify(sorted, null, 2)}\n`)
}
