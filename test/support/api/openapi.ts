/** The parts of an OpenAPI document that the tests look at. */
export type Schema = {
  $ref?: string
  type?: string | string[]
  const?: unknown
  default?: unknown
  format?: string
  description?: string
  properties?: Record<string, Schema>
  required?: string[]
  oneOf?: Schema[]
  discriminator?: { propertyName: string; mapping: Record<string, string> }
}
type Header = { description?: string; schema?: Schema }
type Media = { schema: Schema; example?: unknown; examples?: Record<string, { $ref: string }> }
export type Answer = {
  $ref?: string
  description?: string
  headers?: Record<string, Header>
  content?: Record<string, Media>
}
export type Operation = {
  operationId: string
  summary: string
  description?: string
  tags: string[]
  security: Record<string, string[]>[]
  parameters: { name: string; in: string; required?: boolean; description?: string; schema: Schema; $ref?: string }[]
  requestBody?: { content: Record<string, Media> }
  responses: Record<string, Answer>
}
export type OpenApi = {
  openapi: string
  info: Record<string, unknown>
  tags: { name: string; description: string }[]
  servers: { url: string }[]
  paths: Record<string, Record<string, Operation>>
  webhooks: Record<string, Record<string, Operation>>
  components: {
    schemas: Record<string, Schema>
    headers: Record<string, Header>
    securitySchemes: Record<string, unknown>
  } & Record<string, unknown>
}

/** Resolves a reference; returns anything else unchanged. Throws for a dangling reference. */
export function resolved<T extends object>(document: object, part: T & { $ref?: unknown }): T {
  if (typeof part.$ref !== 'string') return part
  const steps = part.$ref
    .replace(/^#\//, '')
    .split('/')
    .map(step => step.replaceAll('~1', '/'))
  const found = steps.reduce<unknown>((at, step) => (at as Record<string, unknown> | undefined)?.[step], document)
  if (!found) throw new Error(`${part.$ref} leads nowhere`)
  return found as T
}

export type NamedOperation = { name: string; path: string; method: string; operation: Operation }

/** Every operation, with its parameters, body and answers resolved. */
export function operationsIn(document: OpenApi, part: 'paths' | 'webhooks' = 'paths'): NamedOperation[] {
  return Object.entries(document[part]).flatMap(([path, item]) =>
    Object.entries(item).map(([method, operation]) => {
      const parameters = operation.parameters.map(parameter => resolved(document, parameter))
      const answers = Object.entries(operation.responses).map(([status, answer]) => [
        status,
        resolved(document, answer),
      ])
      const { requestBody } = operation
      const body = requestBody && { requestBody: resolved(document, requestBody) }
      const whole = { ...operation, parameters, ...body, responses: Object.fromEntries(answers) }
      return { name: `${method.toUpperCase()} ${path}`, path, method, operation: whole }
    }),
  )
}

/** Every object inside a JSON document. */
export function* objectsIn(value: unknown): Generator<Schema> {
  if (typeof value !== 'object' || value === null) return
  if (!Array.isArray(value)) yield value
  for (const member of Object.values(value)) yield* objectsIn(member)
}
