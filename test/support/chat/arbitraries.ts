import fc from 'fast-check'

/** Arguments of a tool. Validation drops the key `__proto__`, so no argument has that name. */
export const toolArguments = fc.dictionary(
  fc.string().filter(name => name !== '__proto__'),
  fc.jsonValue(),
)
