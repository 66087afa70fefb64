// npx node examples/face-swap.ts [clip.mp4 face.png]
import { download, runJob } from './client.ts'
import { readVideo } from './files.ts'
import { sample } from './samples.ts'

const [clip, face] = process.argv.slice(2)
const job = await runJob('/v1/face-swap', {
  video_url: await sample('clip.mp4', clip),
  face_image_url: await sample('face.png', face),
  source_face_consent: true, // The owner of the face has agreed.
})
const { durationS, width, height } = await readVideo(await download(job.outputs[0]!, job.id))
console.log(`a video of ${durationS.toFixed(2)} s, ${width}x${height}`)
