//! The store's operations on the server. Each that writes is one transaction.

use super::{
    MemoryError, PostgresStore,
    query::{COLUMNS, Conditions, lexemes, list, note},
    server,
};
use crate::{
    notes::{
        Draft, Filter, Forget, Forgotten, MemoryStore, Note, Proposal, Query, Reindexed, Remembered, Searched,
        similar::{COMPARED, Compared, Gist, compare, has_all, waiting},
        store::Answer,
        types::{drafted, merged},
    },
    segment::query_words,
};
use tokio_postgres::{GenericClient, Transaction, types::ToSql};

impl MemoryStore for PostgresStore {
    fn add(&self, draft: Draft) -> Answer<'_, Note> {
        Box::pin(async move {
            let mut connected = self.inner.client().await?;
            let tx = connected.client()?.transaction().await.map_err(|e| server(&e))?;
            let note = drafted(draft, fresh_id(&tx).await?)?;
            self.write(&tx, &note).await?;
            tx.commit().await.map_err(|e| server(&e))?;
            Ok(note)
        })
    }

    fn get<'a>(&'a self, id: &'a str) -> Answer<'a, Note> {
        Box::pin(async move {
            let mut connected = self.inner.client().await?;
            self.find_note(connected.client()?, id).await?.ok_or_else(|| MemoryError::NotFound(id.to_owned()))
        })
    }

    fn list<'a>(&'a self, filter: &'a Filter, offset: usize, limit: usize) -> Answer<'a, Vec<Note>> {
        Box::pin(async move {
            let conditions = Conditions::of(&self.inner.space, filter);
            let number = |n| i64::try_from(n).unwrap_or(i64::MAX);
            list(self.inner.client().await?.client()?, &conditions, number(offset), number(limit)).await
        })
    }

    fn search<'a>(&'a self, query: &'a Query) -> Answer<'a, Searched> {
        Box::pin(self.find(query))
    }

    fn remember(&self, draft: Draft) -> Answer<'_, Remembered> {
        Box::pin(async move {
            let text = drafted(draft.clone(), String::new())?.text;
            let near = self.find(&Query { limit: COMPARED, ..Query::new(&text) }).await?.found;
            let similar = match compare(&text, near) {
                Compared::Known(note) => return Ok(Remembered::Known(note)),
                Compared::Like(ids) => ids,
            };
            let mut connected = self.inner.client().await?;
            let tx = self.locked(connected.client()?).await?;
            if let Some(proposal) = waiting(&text, self.read_proposals(&tx).await?) {
                return Ok(Remembered::Waiting(proposal));
            }
            let gist = Gist::of(&text);
            let rows = tx
                .query(
                    "SELECT at, words, telling FROM jarvis_rejected WHERE space = $1 ORDER BY at DESC",
                    &[&self.inner.space],
                )
                .await
                .map_err(|e| server(&e))?;
            for row in rows {
                let (words, telling): (Vec<i64>, Vec<i64>) = (row.get(1), row.get(2));
                let rejected = Gist { words: words.into_iter().collect(), telling: telling.into_iter().collect() };
                if gist.said_by(&rejected) {
                    return Ok(Remembered::Rejected { at: row.get(0) });
                }
            }
            let proposal = Proposal { note: drafted(draft, fresh_id(&tx).await?)?, similar };
            let json = serde_json::to_string(&proposal).map_err(|e| MemoryError::Invalid(e.to_string()))?;
            let values: [&(dyn ToSql + Sync); 3] = [&self.inner.space, &proposal.note.id, &json];
            tx.execute("INSERT INTO jarvis_proposals (space, id, proposal) VALUES ($1, $2, $3)", &values)
                .await
                .map_err(|e| server(&e))?;
            tx.commit().await.map_err(|e| server(&e))?;
            Ok(Remembered::Proposed(proposal))
        })
    }

    fn proposals(&self) -> Answer<'_, Vec<Proposal>> {
        Box::pin(async move { self.read_proposals(self.inner.client().await?.client()?).await })
    }

    fn accept<'a>(&'a self, id: &'a str, replacing: Option<&'a str>) -> Answer<'a, Note> {
        Box::pin(async move {
            let mut connected = self.inner.client().await?;
            let tx = self.locked(connected.client()?).await?;
            let mut note = self.take_proposal(&tx, id).await?.note;
            if let Some(other) = replacing {
                let old = self.find_note(&tx, other).await?.ok_or_else(|| MemoryError::NotFound(other.to_owned()))?;
                note = merged(old, note);
            }
            self.write(&tx, &note).await?;
            self.remove_vectors(&tx).await?;
            tx.commit().await.map_err(|e| server(&e))?;
            Ok(note)
        })
    }

    fn reject<'a>(&'a self, id: &'a str) -> Answer<'a, Proposal> {
        Box::pin(async move {
            let mut connected = self.inner.client().await?;
            let tx = self.locked(connected.client()?).await?;
            let proposal = self.take_proposal(&tx, id).await?;
            let gist = Gist::of(&proposal.note.text);
            let words: Vec<i64> = gist.words.into_iter().collect();
            let telling: Vec<i64> = gist.telling.into_iter().collect();
            let values: [&(dyn ToSql + Sync); 3] = [&self.inner.space, &words, &telling];
            tx.execute("INSERT INTO jarvis_rejected (space, words, telling) VALUES ($1, $2, $3)", &values)
                .await
                .map_err(|e| server(&e))?;
            tx.commit().await.map_err(|e| server(&e))?;
            Ok(proposal)
        })
    }

    fn forget<'a>(&'a self, what: &'a Forget) -> Answer<'a, Forgotten> {
        Box::pin(async move {
            let mut connected = self.inner.client().await?;
            let tx = self.locked(connected.client()?).await?;
            let all = self.read_proposals(&tx).await?;
            let mut forgotten = Forgotten::default();
            match what {
                Forget::Ids(ids) => {
                    for id in ids {
                        let note = self.find_note(&tx, id).await?;
                        let proposal = all.iter().find(|p| p.note.id == *id).cloned();
                        if note.is_none() && proposal.is_none() {
                            return Err(MemoryError::NotFound(id.clone()));
                        }
                        forgotten.notes.extend(note);
                        forgotten.proposals.extend(proposal);
                    }
                }
                Forget::Words(text) => {
                    forgotten.notes = self.with_all(&tx, text).await?;
                    forgotten.proposals = all.into_iter().filter(|p| has_all(&p.note, text)).collect();
                }
            }
            let gone: Vec<&str> = forgotten.notes.iter().map(|n| n.id.as_str()).collect();
            let proposals: Vec<&str> = forgotten.proposals.iter().map(|p| p.note.id.as_str()).collect();
            for (statement, ids) in [
                ("DELETE FROM jarvis_notes WHERE space = $1 AND id = ANY ($2)", gone),
                ("DELETE FROM jarvis_proposals WHERE space = $1 AND id = ANY ($2)", proposals),
            ] {
                tx.execute(statement, &[&self.inner.space, &ids]).await.map_err(|e| server(&e))?;
            }
            self.remove_vectors(&tx).await?;
            tx.commit().await.map_err(|e| server(&e))?;
            Ok(forgotten)
        })
    }

    fn reindex(&self) -> Answer<'_, Reindexed> {
        Box::pin(async move {
            let notes = {
                let mut connected = self.inner.client().await?;
                let tx = self.locked(connected.client()?).await?;
                let every = Conditions::of(&self.inner.space, &Filter::default());
                let notes = list(&tx, &every, 0, i64::MAX).await?;
                for note in &notes {
                    self.write(&tx, note).await?;
                }
                self.remove_vectors(&tx).await?;
                tx.commit().await.map_err(|e| server(&e))?;
                notes.len()
            };
            let (embedded, notices) = self.embed_missing(usize::MAX).await?;
            Ok(Reindexed { notes, embedded, problems: Vec::new(), notices })
        })
    }
}

async fn fresh_id(client: &impl GenericClient) -> Result<String, MemoryError> {
    // From the server, whose random numbers no two of its clients share.
    let row = client
        .query_one("SELECT left(replace(gen_random_uuid()::text, '-', ''), 10)", &[])
        .await
        .map_err(|e| server(&e))?;
    Ok(format!("{}-{}", jiff::Timestamp::now().strftime("%Y%m%d"), row.get::<_, String>(0)))
}

impl PostgresStore {
    /// A transaction that no other writer of the space runs beside.
    async fn locked<'c>(&self, client: &'c mut tokio_postgres::Client) -> Result<Transaction<'c>, MemoryError> {
        let tx = client.transaction().await.map_err(|e| server(&e))?;
        tx.execute("SELECT pg_advisory_xact_lock(hashtextextended('jarvis ' || $1, 0))", &[&self.inner.space])
            .await
            .map_err(|e| server(&e))?;
        Ok(tx)
    }

    async fn find_note(&self, client: &impl GenericClient, id: &str) -> Result<Option<Note>, MemoryError> {
        if id.contains('\0') {
            return Ok(None);
        }
        let statement = format!("SELECT {COLUMNS} FROM jarvis_notes AS n WHERE n.space = $1 AND n.id = $2");
        let row = client.query_opt(&statement, &[&self.inner.space, &id]).await.map_err(|e| server(&e))?;
        Ok(row.as_ref().map(note))
    }

    async fn with_all(&self, client: &impl GenericClient, text: &str) -> Result<Vec<Note>, MemoryError> {
        let text = text.replace('\0', " ");
        if text.trim().is_empty() {
            return Err(MemoryError::Invalid("no words were given, and not everything is to be forgotten".to_owned()));
        }
        let words: Vec<String> = query_words(&text).iter().map(|w| format!("'{w}'")).collect();
        let (condition, asked) = if words.is_empty() {
            ("position($2 IN n.body) > 0", text.trim().to_owned())
        } else {
            ("n.words @@ $2::text::tsquery", words.join(" & "))
        };
        let statement =
            format!("SELECT {COLUMNS} FROM jarvis_notes AS n WHERE n.space = $1 AND {condition} ORDER BY n.added");
        let rows = client.query(&statement, &[&self.inner.space, &asked]).await.map_err(|e| server(&e))?;
        Ok(rows.iter().map(note).collect())
    }

    async fn read_proposals(&self, client: &impl GenericClient) -> Result<Vec<Proposal>, MemoryError> {
        let rows = client
            .query("SELECT proposal FROM jarvis_proposals WHERE space = $1 ORDER BY made", &[&self.inner.space])
            .await
            .map_err(|e| server(&e))?;
        let parse = |row: &tokio_postgres::Row| {
            serde_json::from_str(row.get(0)).map_err(|e| MemoryError::Server(format!("a proposal cannot be read: {e}")))
        };
        rows.iter().map(parse).collect()
    }

    async fn take_proposal(&self, tx: &Transaction<'_>, id: &str) -> Result<Proposal, MemoryError> {
        let found = self.read_proposals(tx).await?.into_iter().find(|p| p.note.id == id);
        let found = found.ok_or_else(|| MemoryError::NotFound(id.to_owned()))?;
        tx.execute("DELETE FROM jarvis_proposals WHERE space = $1 AND id = $2", &[&self.inner.space, &id])
            .await
            .map_err(|e| server(&e))?;
        Ok(found)
    }

    /// Puts a note, or what it has become, into the table.
    async fn write(&self, tx: &Transaction<'_>, note: &Note) -> Result<(), MemoryError> {
        let (words, length) = lexemes(note);
        let keys: Vec<String> = note.tags.iter().map(|t| t.to_lowercase()).collect();
        let hash = blake3::hash(note.text.as_bytes()).as_bytes().to_vec();
        let (kind, importance) = (note.kind.as_str(), i16::from(note.importance));
        let values: [&(dyn ToSql + Sync); 12] = [
            &self.inner.space,
            &note.id,
            &kind,
            &note.date,
            &importance,
            &note.tags,
            &keys,
            &note.session,
            &note.text,
            &words,
            &length,
            &hash,
        ];
        tx.execute(
            "INSERT INTO jarvis_notes (space, id, kind, date, importance, tags, tag_keys, session, body, words, length, hash)
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10::text::tsvector, $11, $12)
             ON CONFLICT (space, id) DO UPDATE SET kind = $3, date = $4, importance = $5, tags = $6, tag_keys = $7,
                 session = $8, body = $9, words = $10::text::tsvector, length = $11, hash = $12",
            &values,
        )
        .await
        .map(drop)
        .map_err(|e| server(&e))
    }

    /// Those whose text no note has any more.
    async fn remove_vectors(&self, tx: &Transaction<'_>) -> Result<(), MemoryError> {
        tx.execute(
            "DELETE FROM jarvis_note_vectors AS v WHERE v.space = $1
             AND NOT EXISTS (SELECT 1 FROM jarvis_notes AS n WHERE n.space = v.space AND n.hash = v.hash)",
            &[&self.inner.space],
        )
        .await
        .map(drop)
        .map_err(|e| server(&e))
    }
}
