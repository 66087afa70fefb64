import { readFileSync, statSync } from 'node:fs'
import { variables } from './variables.ts'

/** Variables of clouds: `<PROVIDER>_REGIONS` and others. */
const cloudVariables = ['REGIONS', 'PROJECT', 'CREDENTIALS', 'DEPLOYMENTS'] as const
export type CloudVariable = (typeof cloudVariables)[number]

export function isCloudVariable(suffix: string | undefined): suffix is CloudVariable {
  return (cloudVariables as readonly (string | undefined)[]).includes(suffix)
}

/** Variables of providers, and of the regions of one: `<PROVIDER>_API_KEY`, `AZURE_EASTUS_BASE_URL`. Groups: provider, suffix. */
export const providerVariable = new RegExp(
  `^([A-Z][A-Z0-9_]*?)_(API_KEY|BASE_URL|WEBHOOK_SECRET|PROXY|${cloudVariables.join('|')})$`,
)

/** The parts of a list that is separated by commas. */
export function splitList(text: string): string[] {
  return text
    .split(',')
    .map(part => part.trim())
    .filter(Boolean)
}

const suffix = '_FILE'
const maxBytes = 64 * 1024

type VariableFiles = {
  /** The environment with the contents of the files under the names of their variables. */
  env: Record<string, string>
  /** One line for each file that cannot be used. */
  faults: string[]
}

/**
 * Reads the variables that are given as files, as secrets of Docker and Kubernetes are: `<NAME>_FILE` has the path of a
 * file with the value of `<NAME>`, for every variable of the gateway. A trailing line break is removed. Variables of
 * other programs, such as `SSL_CERT_FILE`, stay as they are.
 */
export function readVariableFiles(given: Record<string, string | undefined>): VariableFiles {
  const present = Object.entries(given).filter((entry): entry is [string, string] => Boolean(entry[1]))
  const env = Object.fromEntries(present)
  const faults: string[] = []
  for (const [name, path] of present) {
    const variable = name.slice(0, -suffix.length)
    if (!name.endsWith(suffix) || !isGatewayVariable(variable)) continue
    if (env[variable]) {
      faults.push(`${name}: ${variable} is set, too; set one of them`)
      continue
    }
    try {
      const value = readValue(path)
      if (value === '') faults.push(`${name}: the file ${path} is empty`)
      else env[variable] = value
    } catch (error) {
      faults.push(`${name}: ${(error as Error).message}`)
    }
  }
  return { env, faults }
}

/** Whether the gateway reads a variable of this name: one of its own, or one of a provider. */
export function isGatewayVariable(variable: string): boolean {
  if (Object.hasOwn(variables.shape, variable) || variable === 'DIRECT_DATABASE_URL') return true
  const suffix = providerVariable.exec(variable)?.[2]
  return suffix !== undefined && !isCloudVariable(suffix) // AWS_SHARED_CREDENTIALS_FILE is another program's.
}

function readValue(path: string): string {
  const file = statSync(path)
  if (!file.isFile()) throw new Error(`${path} is not a file`)
  if (file.size > maxBytes) throw new Error(`the file ${path} is larger than ${maxBytes / 1024} kB`)
  return readFileSync(path, 'utf8').replace(/\r?\n$/, '')
}
