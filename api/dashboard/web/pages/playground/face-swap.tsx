import { Checkbox } from '@mantine/core'
import { TabForm } from './fields.tsx'
import { JobPanel, useJobRun } from './job.tsx'
import { ModelPicker, useChoice } from './model-picker.tsx'
import { omitEmpty } from './omit-empty.ts'
import { Panels } from './panels.tsx'
import { usePersistedField } from './persisted-field.ts'
import { type Reference, References } from './references.tsx'

const path = '/v1/face-swap'
const usual = { video: [] as Reference[], face: [] as Reference[], hasConsent: false }

export default function FaceSwapTab() {
  const choice = useChoice('face_swap', ({ type }) => type === 'face_swap')
  const { slug } = choice
  const [fields, setFields] = usePersistedField('face-swap.fields', usual)
  const set = (change: Partial<typeof usual>) => setFields(kept => ({ ...kept, ...change }))
  const run = useJobRun(path)
  const body = {
    model: slug,
    ...omitEmpty({
      video_url: fields.video[0]?.url,
      face_image_url: fields.face[0]?.url,
      source_face_consent: fields.hasConsent || undefined,
    }),
  }
  const form = (
    <TabForm
      submit="Generate"
      pending={run.submit.isPending}
      disabled={slug === '' || fields.video.length === 0 || fields.face.length === 0 || !fields.hasConsent}
      onSubmit={() => run.submit.mutate(body)}
    >
      <ModelPicker choice={choice} />
      <References label="Video" accept="video/*" value={fields.video} onChange={video => set({ video })} />
      <References label="Face" accept="image/*" value={fields.face} onChange={face => set({ face })} />
      <Checkbox
        label="The owner of the face has agreed to this use"
        checked={fields.hasConsent}
        onChange={event => set({ hasConsent: event.currentTarget.checked })}
      />
    </TabForm>
  )
  const result = <JobPanel run={run} title="Face swap" empty="Your video appears here" />
  return <Panels form={form} result={result} request={{ path, body }} />
}
