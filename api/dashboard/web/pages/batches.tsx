import { Page } from '../components/page.tsx'

export default function Batches() {
  return <Page title="Batches">{null}</Page>
}
