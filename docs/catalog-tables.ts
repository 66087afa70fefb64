// Writes the tables of docs/providers.md: the quirks of a provider and the traits of a model at a provider, of their schemas.
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { z } from 'zod'
import { traitGroups } from '../shared/catalog/deployment-traits.ts'
import { ownQuirks, servedTraits } from '../shared/catalog/provider-quirks.ts'

export const page = join(import.meta.dirname, 'providers.md')
const end = '<!-- end of table -->'
const tables: Record<string, Record<string, z.ZodType>> = { quirks: ownQuirks, shared: servedTraits, ...traitGroups }

/** The page with the tables in their places. Throws where it has no place for one. */
export function withCatalogTables(text: string): string {
  let written = text
  for (const [name, members] of Object.entries(tables)) {
    const marker = `<!-- table of ${name}: node docs/catalog-tables.ts -->`
    const from = written.indexOf(marker)
    const to = written.indexOf(end, from)
    if (from < 0 || to < 0) throw new Error(`the page has no markers for the table of ${name}`)
    written = `${written.slice(0, from + marker.length)}\n\n${tableOf(members)}\n\n${written.slice(to)}`
  }
  return written
}

function tableOf(members: Record<string, z.ZodType>): string {
  const rows = Object.entries(members).map(([name, member]) => {
    const schema = member instanceof z.ZodOptional ? (member.unwrap() as z.ZodType) : member
    if (!schema.description) throw new Error(`${name} has no description`)
    return `| \`${name}\` | ${formOf(schema)} | ${schema.description} |`
  })
  return ['| name | value | meaning |', '|---|---|---|', ...rows].join('\n')
}

/** What a member may be, in words. */
function formOf(schema: z.ZodType): string {
  if (schema instanceof z.ZodBoolean) return '`true`, `false`'
  if (schema instanceof z.ZodNumber) return 'number'
  if (schema instanceof z.ZodArray) return 'list of texts'
  if (schema instanceof z.ZodEnum) return schema.options.map(option => `\`"${option}"\``).join(', ')
  if (schema instanceof z.ZodLiteral) return [...schema.values].map(value => `\`"${value}"\``).join(', ')
  if (schema instanceof z.ZodRecord || schema instanceof z.ZodObject) return 'object'
  return schema instanceof z.ZodURL ? 'URL' : 'text'
}

if (import.meta.main) writeFileSync(page, withCatalogTables(readFileSync(page, 'utf8')))
