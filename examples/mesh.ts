// npx node examples/mesh.ts [prompt]
import { download, runJob } from './client.ts'
import { readMesh } from './files.ts'

const [prompt = 'A wooden toy train'] = process.argv.slice(2)
const job = await runJob('/v1/meshes', { prompt })
const glb = job.outputs.find(({ type }) => type === 'glb')
if (!glb) throw new Error('the job has no GLB file')
const { triangles, textured } = await readMesh(await download(glb, job.id))
console.log(`a valid mesh of ${triangles} triangles, ${textured ? 'textured' : 'plain'}`)
