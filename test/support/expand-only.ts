/** A statement of a migration that breaks processes of the release before it, and why. */
export type Contraction = { statement: string; reason: string }

/**
 * The statements of a migration that processes of the previous release cannot run beside: what they read or write is dropped,
 * renamed, retyped or newly constrained. Tables and columns that the migration itself adds are unknown to them.
 */
export function findContractions(sql: string): Contraction[] {
  const statements = statementsOf(sql)
  const created = new Set(statements.flatMap(statement => /^CREATE TABLE (\S+)/i.exec(statement)?.[1] ?? []))
  const added = Map.groupBy(statements.flatMap(addedColumns), ({ table }) => table)
  return statements.flatMap(statement => {
    const table = /^(?:ALTER TABLE(?: ONLY)?|CREATE UNIQUE INDEX \S+ ON) ([^\s(]+)/i.exec(statement)?.[1]
    if (table && (created.has(table) || constrainsAdded(statement, added.get(table)))) return []
    const reason = reasonAgainst(statement)
    return reason ? [{ statement, reason }] : []
  })
}

const rules: [pattern: RegExp, reason: string][] = [
  [/\bDROP (?:TABLE|SCHEMA|VIEW|TYPE|FUNCTION|AGGREGATE|TRIGGER|COLUMN|CONSTRAINT)\b/i, 'drops what may be in use'],
  [/\bDROP DEFAULT\b/i, 'rows without the column are refused'],
  [/\bRENAME\b/i, 'renames what is in use'],
  [/\bSET NOT NULL\b/i, 'rows without the column are refused'],
  [/\bALTER COLUMN \S+ (?:SET DATA )?TYPE\b/i, 'changes the type of a column in use'],
  [/\bADD CONSTRAINT\b|^CREATE UNIQUE INDEX\b/i, 'constrains rows of processes that do not know the rule'],
]

function reasonAgainst(statement: string): string | null {
  const broken = rules.find(([pattern]) => pattern.test(statement))
  if (broken) return broken[1]
  const required = addedColumns(statement).some(({ type }) => /\bNOT NULL\b/i.test(type) && !/\bDEFAULT\b/i.test(type))
  return required ? 'rows without the new column are refused' : null
}

type AddedColumn = { table: string; column: string; type: string }

function addedColumns(statement: string): AddedColumn[] {
  const table = /^ALTER TABLE(?: ONLY)? (\S+)/i.exec(statement)?.[1]
  if (!table) return []
  const columns = statement.matchAll(/\bADD COLUMN (\S+) ((?:\([^)]*\)|[^,(])*)/gi)
  return [...columns].map(([, column, type]) => ({ table, column: column!, type: type! }))
}

/** Whether a statement only adds a constraint of columns that are new. */
function constrainsAdded(statement: string, added: readonly AddedColumn[] = []): boolean {
  const columns =
    /^(?:ALTER TABLE \S+ ADD CONSTRAINT \S+ (?:FOREIGN KEY|UNIQUE) ?|CREATE UNIQUE INDEX \S+ ON [^\s(]+ ?)\(([^)]*)\)/i.exec(
      statement,
    )
  const names = columns?.[1]?.split(',').map(name => name.trim()) ?? []
  return names.length > 0 && names.every(name => added.some(({ column }) => column === name))
}

/** Statements without comments, in one line each; bodies of functions are empty. */
function statementsOf(sql: string): string[] {
  const plain = sql
    .replaceAll(/--.*$/gm, '')
    .replaceAll(/\/\*[\s\S]*?\*\//g, '')
    .replaceAll(/(\$\w*\$)[\s\S]*?\1/g, '$1$1')
  return plain
    .split(';')
    .map(statement => statement.replaceAll(/\s+/g, ' ').trim())
    .filter(Boolean)
}
