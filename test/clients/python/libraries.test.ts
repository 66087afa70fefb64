import test from 'ava'
import { maxInstallMs, preparePython, runPytest } from '../support/python.ts'

/** The libraries, by the requirements that they share; each is tested by `test_<name>.py`. */
const libraries: Record<string, string[]> = {
  newest: ['openai', 'anthropic', 'langchain', 'pydantic_ai', 'openai_agents', 'litellm', 'google_genai'],
  older: ['instructor', 'llama_index'],
}
/** The libraries that only `npm run test:clients -- --all` tests. */
const moreLibraries: Record<string, string[]> = {
  more: ['dspy', 'smolagents', 'haystack', 'mem0', 'agno', 'autogen'],
  crewai: ['crewai'],
  aider: ['aider'],
}
const maxRunMs = 300_000

for (const [environment, names] of Object.entries({ ...libraries, ...(process.env.CLIENTS_ALL && moreLibraries) }))
  for (const name of names)
    test.serial(`200 ${name} (Python): answers, streams, tools, structured output and errors`, async t => {
      t.timeout(maxInstallMs + maxRunMs)
      const prepared = await preparePython(environment)
      if ('missing' in prepared) {
        t.log(`Left out: this machine has no ${prepared.missing}.`)
        return t.pass()
      }
      const { hasPassed, output } = await runPytest(prepared.python, `test_${name}.py`, maxRunMs)
      t.log(output.trim().split('\n').at(-1))
      t.true(hasPassed, output)
    })
